//! Whether a session can still be used.

use repltool::client::Client;
use repltool_protocol::ids::SessionId;
use repltool_protocol::rest::ExecutionResult;

use super::run;

/// Fails the test unless the session runs code, and in Bash also programs.
pub async fn assert_usable(client: &Client, id: &SessionId, language: &str) {
    let text = match language {
        "python" => "print(6 * 7)",
        "javascript" => "console.log(6 * 7)",
        _ => "echo $((6 * 7)); ls / >/dev/null",
    };
    let result = run(client, id, text).await;
    assert_eq!((result.success, result.output.as_str()), (true, "42\n"), "{language}: {result:?}");
}

/// The name of the exception that ended an execution, or nothing.
pub fn exception_name(result: &ExecutionResult) -> &str {
    result.exception.as_ref().map_or("", |exception| exception.name.as_str())
}
