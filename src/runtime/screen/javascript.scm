; What the screening finds in JavaScript. The captures and properties are explained in python.scm.

; --- import

(import_statement
  source: (string (string_fragment) @module)
  (#set! rule "import") (#set! certainty "certain"))

(export_statement
  source: (string (string_fragment) @module)
  (#set! rule "import") (#set! certainty "certain"))

(call_expression
  function: (import)
  arguments: (arguments . (string (string_fragment) @module))
  (#set! rule "import") (#set! certainty "certain"))

(call_expression
  function: [(identifier) (member_expression)] @_require
  arguments: (arguments . (string (string_fragment) @module))
  (#any-of? @_require
    "require" "module.require" "process.mainModule.require" "globalThis.require" "process.getBuiltinModule"
    "globalThis.process.getBuiltinModule")
  (#set! rule "import") (#set! certainty "certain"))

(call_expression
  function: (member_expression) @module
  arguments: (arguments . (string))
  (#any-of? @module "process.binding" "process._linkedBinding" "process.dlopen")
  (#set! rule "import") (#set! certainty "certain") (#set! native))

[
  (function_declaration)
  (function_expression)
  (generator_function)
  (generator_function_declaration)
  (arrow_function)
  (method_definition)
  (if_statement)
  (for_statement)
  (for_in_statement)
  (while_statement)
  (do_statement)
  (switch_statement)
  (ternary_expression)
  (binary_expression operator: ["&&" "||" "??"])
  (try_statement handler: (catch_clause))
] @conditional

; --- fork_bomb: an endless loop, or a function that calls itself, which does nothing but make processes or threads

(while_statement
  condition: (parenthesized_expression [(true) (number)] @_endless)
  body: [
    (expression_statement (call_expression function: [(identifier) (member_expression)] @_fork))
    (statement_block . (expression_statement (call_expression function: [(identifier) (member_expression)] @_fork)) .)
  ]
  (#not-eq? @_endless "0")
  (#match? @_fork "^((cp|child_process|childProcess|require\\(['\"](node:)?child_process['\"]\\))[.](fork|spawn|exec|execFile)|fork|spawn|cluster[.]fork)$")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(for_statement
  initializer: (empty_statement)
  condition: (empty_statement)
  body: [
    (expression_statement (call_expression function: [(identifier) (member_expression)] @_fork))
    (statement_block . (expression_statement (call_expression function: [(identifier) (member_expression)] @_fork)) .)
  ]
  (#match? @_fork "^((cp|child_process|childProcess|require\\(['\"](node:)?child_process['\"]\\))[.](fork|spawn|exec|execFile)|fork|spawn|cluster[.]fork)$")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(while_statement
  condition: (parenthesized_expression [(true) (number)] @_endless)
  body: [
    (expression_statement (new_expression constructor: (identifier) @_made))
    (statement_block . (expression_statement (new_expression constructor: (identifier) @_made)) .)
  ]
  (#not-eq? @_endless "0")
  (#eq? @_made "Worker")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(for_statement
  initializer: (empty_statement)
  condition: (empty_statement)
  body: [
    (expression_statement (new_expression constructor: (identifier) @_made))
    (statement_block . (expression_statement (new_expression constructor: (identifier) @_made)) .)
  ]
  (#eq? @_made "Worker")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(function_declaration
  name: (identifier) @_name
  body: (statement_block
    (expression_statement (call_expression function: [(identifier) (member_expression)] @_fork))
    .
    (expression_statement (call_expression function: (identifier) @_again)))
  (#match? @_fork "^((cp|child_process|childProcess)[.](fork|spawn|exec)|fork|spawn|cluster[.]fork)$")
  (#eq? @_name @_again)
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

; --- path_traversal: files of others are opened by name

(call_expression
  function: [(identifier) (member_expression)] @_open
  arguments: (arguments . [
    (string . (string_fragment) @found .)
    (template_string . (string_fragment) @found .)
  ])
  (#match? @_open "(^|[.])(readFile|readFileSync|createReadStream|open|openSync|writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream|readdir|readdirSync|copyFile|copyFileSync)$")
  (#match? @found "^/+(etc/(shadow|gshadow|sudoers)[-~]?|proc/1/(mem|root|cwd|fd|environ|maps)(/.*)?|proc/(self|thread-self|[0-9]+)/(mem|root(/.*)?)|proc/(kcore|kmem|sysrq-trigger)|dev/k?mem|dev/port)$")
  (#set! rule "path_traversal") (#set! certainty "certain"))

(call_expression
  function: [(identifier) (member_expression)] @_open
  arguments: (arguments . [
    (string . (string_fragment) @found .)
    (template_string . (string_fragment) @found .)
  ])
  (#match? @_open "(^|[.])(readFile|readFileSync|createReadStream|open|openSync|writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream|readdir|readdirSync|copyFile|copyFileSync)$")
  (#match? @found "(?i)(^|/)(\\.\\.|\\.{4}/)(/+(\\.\\.|\\.{4}/))+/+(.*/)?(etc/+(passwd|shadow|gshadow|sudoers)|proc/+(self|1)/|root/+\\.ssh/)|(\\.\\.|%2e%2e|%252e%252e)(%2f|%5c|%252f)(\\.\\.|%2e%2e|%252e%252e)(%2f|%5c|%252f)")
  (#set! rule "path_traversal") (#set! certainty "certain"))

(call_expression
  function: (member_expression) @_path
  arguments: (arguments (string . (string_fragment) @found .))
  (#any-of? @_path "path.join" "path.resolve")
  (#match? @found "^/+etc/(shadow|gshadow|sudoers)[-~]?$|^/+proc/(self|1)/mem$|(^|/)\\.\\./+(\\.\\./+)+(.*/)?(etc/+(passwd|shadow)|root/+\\.ssh/)")
  (#set! rule "path_traversal") (#set! certainty "suspicious"))

; --- shell_injection: what somebody else wrote becomes part of a shell's command

(call_expression
  function: [(identifier) (member_expression)] @_shell
  arguments: (arguments . [
    (call_expression function: (identifier) @_prompt)
    (member_expression) @_input
    (subscript_expression) @_input
    (binary_expression [
      (call_expression function: (identifier) @_prompt)
      (member_expression) @_input
      (subscript_expression) @_input
    ])
    (binary_expression (binary_expression [
      (call_expression function: (identifier) @_prompt)
      (member_expression) @_input
      (subscript_expression) @_input
    ]))
    (template_string (template_substitution [
      (call_expression function: (identifier) @_prompt)
      (member_expression) @_input
      (subscript_expression) @_input
    ]))
  ])
  (#match? @_shell "^((cp|child_process|childProcess|require\\(['\"](node:)?child_process['\"]\\))[.])?(exec|execSync)$")
  (#eq? @_prompt "prompt")
  (#match? @_input "^(ctx[.])?(req|request)[.](query|body|params|headers|cookies)([.\\[].*)?$")
  (#set! rule "shell_injection") (#set! certainty "certain")) @found

(call_expression
  function: [(identifier) (member_expression)] @_shell
  arguments: (arguments . [
    (binary_expression operator: "+" [(identifier) (member_expression) (subscript_expression) (call_expression)])
    (binary_expression operator: "+" (binary_expression))
    (template_string (template_substitution))
  ])
  (#match? @_shell "^((cp|child_process|childProcess|require\\(['\"](node:)?child_process['\"]\\))[.](exec|execSync)|execSync)$")
  (#set! rule "shell_injection") (#set! certainty "suspicious")) @found

; --- code_injection: what somebody else wrote, or what was hidden, is run as code

(call_expression
  function: (identifier) @_run
  arguments: (arguments . [
    (call_expression function: (identifier) @_prompt)
    (member_expression) @_input
  ])
  (#eq? @_run "eval")
  (#eq? @_prompt "prompt")
  (#match? @_input "^(ctx[.])?(req|request)[.](query|body|params|headers|cookies)[.].*$")
  (#set! rule "code_injection") (#set! certainty "suspicious")) @found

(call_expression
  function: [(identifier) (member_expression)] @_run
  arguments: (arguments . [
    (call_expression function: (identifier) @_decode arguments: (arguments . (string)))
    (call_expression function: (member_expression
      object: (call_expression
        function: (member_expression) @_from
        arguments: (arguments . (string) . (string (string_fragment) @_encoding)))
      property: (property_identifier) @_as))
  ])
  (#any-of? @_run "eval" "globalThis.eval" "Function" "setTimeout" "vm.runInThisContext")
  (#any-of? @_decode "atob" "unescape")
  (#eq? @_from "Buffer.from")
  (#any-of? @_encoding "base64" "hex")
  (#eq? @_as "toString")
  (#set! rule "code_injection") (#set! certainty "certain")) @found

(new_expression
  constructor: (identifier) @_run
  arguments: (arguments [
    (call_expression function: (identifier) @_decode arguments: (arguments . (string)))
    (call_expression function: (member_expression
      object: (call_expression
        function: (member_expression) @_from
        arguments: (arguments . (string) . (string (string_fragment) @_encoding)))
      property: (property_identifier) @_as))
  ])
  (#eq? @_run "Function")
  (#any-of? @_decode "atob" "unescape")
  (#eq? @_from "Buffer.from")
  (#any-of? @_encoding "base64" "hex")
  (#eq? @_as "toString")
  (#set! rule "code_injection") (#set! certainty "certain")) @found

; --- sandbox_escape: from any value to the constructor of functions, and by it to the process

(call_expression
  function: (member_expression
    object: (member_expression property: (property_identifier) @_constructor)
    property: (property_identifier) @_again)
  arguments: (arguments . (string (string_fragment) @_code) .)
  (#eq? @_constructor "constructor")
  (#eq? @_again "constructor")
  (#match? @_code "^\\s*return\\s+(this[.])?(process|globalThis|global|require|this)\\b")
  (#set! rule "sandbox_escape") (#set! certainty "certain")) @found

; --- destruction: everything is removed

(call_expression
  function: [(identifier) (member_expression)] @_remove
  arguments: (arguments . (string . (string_fragment) @_path .) . (object))
  (#match? @_remove "(^|[.])(rm|rmSync|rmdir|rmdirSync|rimraf)$")
  (#match? @_path "^/+[*.]?$")
  (#set! rule "destruction") (#set! certainty "certain")) @found

(call_expression
  function: [(identifier) (member_expression)] @_shell
  arguments: (arguments . (string . (string_fragment) @_command .))
  (#match? @_shell "^((cp|child_process|childProcess|require\\(['\"](node:)?child_process['\"]\\))[.])?(exec|execSync)$")
  (#match? @_command "^\\s*(sudo\\s+)?rm\\s+(-[a-zA-Z]*[rR][a-zA-Z]*\\s+|-f\\s+|--[a-z-]+\\s+)+/+\\*?\\s*$|:\\s*\\(\\)\\s*\\{\\s*:\\s*\\|\\s*:\\s*&\\s*\\}")
  (#set! rule "destruction") (#set! certainty "certain")) @found
