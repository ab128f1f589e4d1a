; What the screening finds in Python. Each pattern sets `rule` and `certainty` ("certain": nobody writes this by accident;
; "suspicious": honest code looks like this too, now and then). `@found` is where it is and what is told of it, unless the
; pattern sets `detail`. `@module` is the name of a module that is imported: whether that breaks a rule, the level says.
; Within `@conditional` code runs perhaps. Captures that begin with `_` are for the predicates alone.

; --- import

(import_statement
  name: [(dotted_name) @module (aliased_import name: (dotted_name) @module)]
  (#set! rule "import") (#set! certainty "certain"))

(import_from_statement
  module_name: (dotted_name) @module
  (#set! rule "import") (#set! certainty "certain"))

(call
  function: [(identifier) (attribute)] @_import
  arguments: (argument_list . (string (string_start) . (string_content) @module . (string_end)))
  (#any-of? @_import "__import__" "builtins.__import__" "importlib.import_module" "importlib.__import__" "import_module")
  (#set! rule "import") (#set! certainty "certain"))

[
  (function_definition)
  (lambda)
  (if_statement)
  (for_statement)
  (while_statement)
  (match_statement)
  (except_clause)
  (conditional_expression)
  (boolean_operator)
  (list_comprehension)
  (set_comprehension)
  (dictionary_comprehension)
  (generator_expression)
  (try_statement (except_clause))
] @conditional

; --- fork_bomb: an endless loop, or a function that calls itself, which does nothing but make processes or threads

(while_statement
  condition: [(true) (integer) (parenthesized_expression [(true) (integer)])] @_endless
  body: (block . (expression_statement (call function: [(identifier) (attribute)] @_fork)) .)
  (#not-match? @_endless "^\\(?0")
  (#any-of? @_fork
    "os.fork" "fork" "os.forkpty" "pty.fork" "subprocess.Popen" "Popen" "os.posix_spawn" "os.spawnl" "os.spawnv"
    "multiprocessing.Process().start" "_thread.start_new_thread")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(while_statement
  condition: [(true) (integer) (parenthesized_expression [(true) (integer)])] @_endless
  body: (block .
    (expression_statement
      (call
        function: (attribute object: (call function: [(identifier) (attribute)] @_made) attribute: (identifier) @_start))) .)
  (#not-match? @_endless "^\\(?0")
  (#eq? @_start "start")
  (#match? @_made "^([A-Za-z_.]+\\.)?(Process|Thread)$")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(while_statement
  condition: (call function: (attribute) @_fork)
  (#any-of? @_fork "os.fork")
  (#set! rule "fork_bomb") (#set! certainty "suspicious")) @found

(while_statement
  condition: (boolean_operator [
    left: (call function: (attribute) @_fork)
    right: (true)])
  (#any-of? @_fork "os.fork")
  (#set! rule "fork_bomb") (#set! certainty "suspicious")) @found

(for_statement
  body: (block . (expression_statement (call function: (attribute) @_fork)) .)
  (#any-of? @_fork "os.fork")
  (#set! rule "fork_bomb") (#set! certainty "suspicious")) @found

(list_comprehension
  body: (call function: (attribute) @_fork)
  (#any-of? @_fork "os.fork")
  (#set! rule "fork_bomb") (#set! certainty "suspicious")) @found

(function_definition
  name: (identifier) @_name
  body: (block
    (expression_statement (call function: [(identifier) (attribute)] @_fork))
    .
    (expression_statement (call function: (identifier) @_again)))
  (#any-of? @_fork "os.fork" "fork" "os.forkpty" "pty.fork")
  (#eq? @_name @_again)
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

; --- path_traversal: files of others are opened by name

(call
  function: [(identifier) (attribute)] @_open
  arguments: (argument_list . (string (string_start) . (string_content) @found . (string_end)))
  (#match? @_open "(^|[.])(open|read_csv|read_table|loadtxt|fromfile|sendfile|copy|copyfile|copy2|listdir|scandir)$")
  (#match? @found "^/+(etc/(shadow|gshadow|sudoers)[-~]?|proc/1/(mem|root|cwd|fd|environ|maps)(/.*)?|proc/(self|thread-self|[0-9]+)/(mem|root(/.*)?)|proc/(kcore|kmem|sysrq-trigger)|dev/k?mem|dev/port)$")
  (#set! rule "path_traversal") (#set! certainty "certain"))

(call
  function: [(identifier) (attribute)] @_open
  arguments: (argument_list . (string (string_start) . (string_content) @found . (string_end)))
  (#match? @_open "(^|[.])(open|read_csv|read_table|loadtxt|fromfile|sendfile|copy|copyfile|copy2|listdir|scandir)$")
  (#match? @found "(?i)(^|/)(\\.\\.|\\.{4}/)(/+(\\.\\.|\\.{4}/))+/+(.*/)?(etc/+(passwd|shadow|gshadow|sudoers)|proc/+(self|1)/|root/+\\.ssh/)|(\\.\\.|%2e%2e|%252e%252e)(%2f|%5c|%252f)(\\.\\.|%2e%2e|%252e%252e)(%2f|%5c|%252f)")
  (#set! rule "path_traversal") (#set! certainty "certain"))

(call
  function: (attribute
    object: (call
      function: [(identifier) (attribute)] @_path
      arguments: (argument_list . (string (string_start) . (string_content) @found . (string_end))))
    attribute: (identifier) @_open)
  (#any-of? @_path "Path" "pathlib.Path" "PosixPath" "pathlib.PosixPath")
  (#any-of? @_open "open" "read_text" "read_bytes" "write_text" "write_bytes")
  (#match? @found "^/+(etc/(shadow|gshadow|sudoers)[-~]?|proc/1/(mem|root|cwd|fd|environ|maps)(/.*)?|proc/(self|thread-self|[0-9]+)/(mem|root(/.*)?)|proc/(kcore|kmem|sysrq-trigger)|dev/k?mem|dev/port)$|(^|/)\\.\\./+(\\.\\./+)+(.*/)?(etc/+(passwd|shadow|gshadow|sudoers)|proc/+(self|1)/|root/+\\.ssh/)")
  (#set! rule "path_traversal") (#set! certainty "certain"))

(call
  function: [(identifier) (attribute)] @_path
  arguments: (argument_list (string (string_start) . (string_content) @found . (string_end)))
  (#match? @_path "(^|[.])(Path|PosixPath|path[.]join)$")
  (#match? @found "^/+etc/(shadow|gshadow|sudoers)[-~]?$|^/+proc/(self|1)/mem$|(^|/)\\.\\./+(\\.\\./+)+(.*/)?(etc/+(passwd|shadow)|root/+\\.ssh/)")
  (#set! rule "path_traversal") (#set! certainty "suspicious"))

; --- shell_injection: what somebody else wrote becomes part of a shell's command

(call
  function: [(identifier) (attribute)] @_shell
  arguments: (argument_list . [
    (call function: [(identifier) (attribute)] @_input)
    (binary_operator [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)])
    (binary_operator (binary_operator [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)]))
    (binary_operator (tuple [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)]))
    (string (interpolation [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)]))
    (call
      function: (attribute object: (string) attribute: (identifier) @_format)
      arguments: (argument_list [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)]))
  ])
  (#any-of? @_shell
    "os.system" "system" "os.popen" "popen" "subprocess.getoutput" "subprocess.getstatusoutput" "getoutput"
    "commands.getoutput" "asyncio.create_subprocess_shell")
  (#match? @_input "^(builtins[.])?input$|^sys[.]stdin[.]read(line)?$|^request[.](args|form|values|json|cookies|headers|GET|POST|query_params)([.]get)?$")
  (#set! rule "shell_injection") (#set! certainty "certain")) @found

(call
  function: [(identifier) (attribute)] @_shell
  arguments: (argument_list . [
    (call function: [(identifier) (attribute)] @_input)
    (binary_operator [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)])
    (binary_operator (binary_operator [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)]))
    (string (interpolation [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)]))
    (call
      function: (attribute object: (string) attribute: (identifier) @_format)
      arguments: (argument_list [(call function: [(identifier) (attribute)] @_input) (subscript value: (attribute) @_input)]))
  ]
  (keyword_argument name: (identifier) @_name value: (true)))
  (#match? @_shell "^(subprocess[.])?(run|call|check_call|check_output|Popen)$")
  (#eq? @_name "shell")
  (#match? @_input "^(builtins[.])?input$|^sys[.]stdin[.]read(line)?$|^request[.](args|form|values|json|cookies|headers|GET|POST|query_params)([.]get)?$")
  (#set! rule "shell_injection") (#set! certainty "certain")) @found

(call
  function: (attribute) @_shell
  arguments: (argument_list . [
    (binary_operator left: (string) right: [(identifier) (subscript) (attribute) (call)])
    (binary_operator left: (binary_operator) right: (string))
    (string (interpolation))
  ])
  (#any-of? @_shell "os.system" "os.popen" "subprocess.getoutput" "subprocess.getstatusoutput")
  (#set! rule "shell_injection") (#set! certainty "suspicious")) @found

(call
  function: (attribute) @_shell
  arguments: (argument_list . [
    (binary_operator left: (string) right: [(identifier) (subscript) (attribute) (call)])
    (binary_operator left: (binary_operator) right: (string))
    (string (interpolation))
  ]
  (keyword_argument name: (identifier) @_name value: (true)))
  (#match? @_shell "^subprocess[.](run|call|check_call|check_output|Popen)$")
  (#eq? @_name "shell")
  (#set! rule "shell_injection") (#set! certainty "suspicious")) @found

; --- code_injection: what somebody else wrote, or what was hidden, is run as code

(call
  function: (identifier) @_run
  arguments: (argument_list . (call function: [(identifier) (attribute)] @_input))
  (#any-of? @_run "eval" "exec")
  (#match? @_input "^(builtins[.])?input$|^sys[.]stdin[.]read(line)?$|^request[.](args|form|values|json|cookies|GET|POST|query_params)[.]get$")
  (#set! rule "code_injection") (#set! certainty "suspicious")) @found

(call
  function: (identifier) @_run
  arguments: (argument_list . [
    (call function: [(identifier) (attribute)] @_decode)
    (call function: (attribute object: (call function: [(identifier) (attribute)] @_decode) attribute: (identifier) @_as))
    (call
      function: (identifier) @_compile
      arguments: (argument_list . [
        (call function: [(identifier) (attribute)] @_decode)
        (call function: (attribute object: (call function: [(identifier) (attribute)] @_decode) attribute: (identifier) @_as))]))
  ])
  (#any-of? @_run "eval" "exec")
  (#any-of? @_compile "compile")
  (#match? @_decode "^(base64[.]|__import__\\(['\"]base64['\"]\\)[.])?(b64decode|b32decode|b16decode|b85decode|a85decode|urlsafe_b64decode)$|^bytes[.]fromhex$|^(binascii[.])?(unhexlify|a2b_base64|a2b_hex)$|^(zlib|gzip|bz2|lzma)[.]decompress$")
  (#set! rule "code_injection") (#set! certainty "certain")) @found

; --- sandbox_escape: from any value to every class of the interpreter

(attribute
  object: [
    (attribute object: (attribute
      object: [(tuple) (list) (dictionary) (string) (integer)]
      attribute: (identifier) @_class) attribute: (identifier) @_base)
    (subscript value: (attribute object: (attribute
      object: [(tuple) (list) (dictionary) (string) (integer)]
      attribute: (identifier) @_class) attribute: (identifier) @_base))
  ]
  attribute: (identifier) @_subclasses
  (#eq? @_class "__class__")
  (#any-of? @_base "__base__" "__bases__" "__mro__")
  (#eq? @_subclasses "__subclasses__")
  (#set! rule "sandbox_escape") (#set! certainty "certain")) @found

; --- destruction: everything is removed

(call
  function: [(identifier) (attribute)] @_remove
  arguments: (argument_list . (string (string_start) . (string_content) @_path . (string_end)))
  (#any-of? @_remove "shutil.rmtree" "rmtree")
  (#match? @_path "^/+(\\*|\\.)?$")
  (#set! rule "destruction") (#set! certainty "certain")) @found

(call
  function: [(identifier) (attribute)] @_shell
  arguments: (argument_list . (string (string_start) . (string_content) @_command . (string_end)))
  (#any-of? @_shell "os.system" "system" "os.popen" "subprocess.getoutput")
  (#match? @_command "^\\s*(sudo\\s+)?rm\\s+(-[a-zA-Z]*[rR][a-zA-Z]*\\s+|-f\\s+|--[a-z-]+\\s+)+/+\\*?\\s*$|:\\s*\\(\\)\\s*\\{\\s*:\\s*\\|\\s*:\\s*&\\s*\\}")
  (#set! rule "destruction") (#set! certainty "certain")) @found
