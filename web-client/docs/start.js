// Shows the API of the server that this page came from. Nothing is loaded from elsewhere, no other server validates the
// description, and a token that is entered is forgotten with the page.
SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false,
  queryConfigEnabled: false,
  validatorUrl: null,
});
