; What the screening finds in Bash. The captures and properties are explained in python.scm.

; --- import: code of the machine is loaded into the shell

(command
  name: (command_name (word) @_enable)
  argument: (word) @_load
  .
  argument: [(word) (string) (raw_string)] @module
  (#eq? @_enable "enable")
  (#match? @_load "^-[a-z]*f$")
  (#set! rule "import") (#set! certainty "certain") (#set! native))

[
  (function_definition)
  (if_statement)
  (for_statement)
  (c_style_for_statement)
  (while_statement)
  (case_statement)
  (list)
] @conditional

; --- fork_bomb: a function that starts itself twice, or an endless loop that does nothing but start things

(function_definition
  name: (word) @_name
  body: (_ (pipeline
    . (command name: (command_name (word) @_one) !argument)
    (command name: (command_name (word) @_two) !argument) .))
  (#eq? @_name @_one)
  (#eq? @_name @_two)
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(function_definition
  name: (word) @_name
  body: (_ [(subshell (pipeline
    . (command name: (command_name (word) @_one) !argument)
    (command name: (command_name (word) @_two) !argument) .))
  (compound_statement (pipeline
    . (command name: (command_name (word) @_one) !argument)
    (command name: (command_name (word) @_two) !argument) .))
  (redirected_statement body: (pipeline
    . (command name: (command_name (word) @_one) !argument)
    (command name: (command_name (word) @_two) !argument) .))])
  (#eq? @_name @_one)
  (#eq? @_name @_two)
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(function_definition
  name: (word) @_name
  body: (_
    (command name: (command_name (word) @_one) !argument) . "&" .
    (command name: (command_name (word) @_two) !argument))
  (#eq? @_name @_one)
  (#eq? @_name @_two)
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(function_definition
  name: (word) @_name
  body: (_ (command name: (command_name (word) @_one) !argument) . "&")
  (#eq? @_name @_one)
  (#set! rule "fork_bomb") (#set! certainty "suspicious")) @found

(while_statement
  "while"
  condition: (command name: (command_name (word) @_endless))
  body: (do_group "do" . (_) . "&" . "done")
  (#any-of? @_endless "true" ":" "/bin/true")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(while_statement
  "until"
  condition: (command name: (command_name (word) @_endless))
  body: (do_group "do" . (_) . "&" . "done")
  (#eq? @_endless "false")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

(c_style_for_statement
  "((" . ";" . ";" . "))"
  body: (do_group "do" . (_) . "&" . "done")
  (#set! rule "fork_bomb") (#set! certainty "certain")) @found

([
  (pipeline . (command name: (command_name [(simple_expansion) (string (simple_expansion))] @_one))
    (command name: (command_name [(simple_expansion) (string (simple_expansion))] @_two)))
  (program
    (command name: (command_name [(simple_expansion) (string (simple_expansion))] @_one)) . "&" .
    (command name: (command_name [(simple_expansion) (string (simple_expansion))] @_two)))
 ] @found
  (#any-of? @_one "$0" "\"$0\"")
  (#any-of? @_two "$0" "\"$0\"")
  (#set! rule "fork_bomb") (#set! certainty "certain"))

; --- path_traversal: files of others are opened by name

(command
  name: (command_name (word) @_read)
  argument: [(word) (string . (string_content) .) (raw_string)] @found
  (#match? @_read "^(/usr)?(/bin/)?(cat|tac|less|more|head|tail|cp|mv|dd|strings|xxd|od|hexdump|base64|base32|nl|rev|cut|awk|gawk|mawk|sed|grep|egrep|tee|source|[.]|mapfile|curl|nc|ln|tar|zip|gzip|scp)$")
  (#match? @found "^[\"']?/+(etc/(shadow|gshadow|sudoers)[-~]?|proc/1/(mem|root|cwd|fd|environ|maps)(/.*)?|proc/(self|thread-self|[0-9]+)/(mem|root(/.*)?)|proc/(kcore|kmem|sysrq-trigger)|dev/k?mem|dev/port)[\"']?$|(^[\"']?|/)\\.\\./+(\\.\\./+)+(.*/)?(etc/+(passwd|shadow|gshadow|sudoers)[\"']?$|proc/+(self|1)/|root/+\\.ssh/)")
  (#set! rule "path_traversal") (#set! certainty "certain"))

(file_redirect
  destination: [(word) (string . (string_content) .) (raw_string)] @found
  (#match? @found "^[\"']?/+(etc/(shadow|gshadow|sudoers)[-~]?|proc/1/(mem|root|cwd|fd|environ|maps)(/.*)?|proc/(self|thread-self|[0-9]+)/(mem|root(/.*)?)|proc/(kcore|kmem|sysrq-trigger)|dev/k?mem|dev/port)[\"']?$|(^[\"']?|/)\\.\\./+(\\.\\./+)+(.*/)?(etc/+(passwd|shadow|gshadow|sudoers)[\"']?$|proc/+(self|1)/|root/+\\.ssh/)")
  (#set! rule "path_traversal") (#set! certainty "certain"))

; --- shell_injection: what somebody else wrote becomes a command

(command
  name: (command_name (word) @_eval)
  .
  argument: [(simple_expansion) (expansion)] @_code
  (#eq? @_eval "eval")
  (#set! rule "shell_injection") (#set! certainty "suspicious")) @found

(command
  name: (command_name (word) @_shell)
  argument: (word) @_option
  .
  argument: [(simple_expansion) (expansion)]
  (#match? @_shell "^(/usr)?(/bin/)?(ba|da|z|k)?sh$")
  (#match? @_option "^-[a-z]*c$")
  (#set! rule "shell_injection") (#set! certainty "suspicious")) @found

(command
  name: (command_name (word) @_eval)
  argument: [
    (simple_expansion (variable_name) @_from)
    (expansion (variable_name) @_from)
    (string [(simple_expansion (variable_name) @_from) (expansion (variable_name) @_from)])
  ]
  (#match? @_eval "^eval$|^(/usr)?(/bin/)?(ba|da|z|k)?sh$")
  (#match? @_from "^(QUERY_STRING|HTTP_[A-Z_]+|PATH_INFO|REQUEST_URI)$")
  (#set! rule "shell_injection") (#set! certainty "certain")) @found

(command
  name: (command_name (word) @_eval)
  argument: [
    (command_substitution . (command name: (command_name (word) @_input) !argument) .)
    (command_substitution . (file_redirect destination: (word) @_file) .)
    (string (command_substitution . (command name: (command_name (word) @_input) !argument) .))
    (string (command_substitution . (file_redirect destination: (word) @_file) .))
  ]
  (#eq? @_eval "eval")
  (#any-of? @_input "cat")
  (#any-of? @_file "/dev/stdin" "/proc/self/fd/0" "/dev/tty")
  (#set! rule "shell_injection") (#set! certainty "certain")) @found

; --- code_injection: what was hidden, or comes from the network, is run as code

(pipeline
  (command name: (command_name (word) @_decode) argument: (word) @_option)
  .
  (command name: (command_name (word) @_shell)) .
  (#any-of? @_decode "base64" "base32" "openssl")
  (#any-of? @_option "-d" "--decode" "-D" "-di" "enc")
  (#match? @_shell "^(/usr)?(/bin/)?(ba|da|z|k)?sh$")
  (#set! rule "code_injection") (#set! certainty "certain")) @found

(command
  name: (command_name (word) @_eval)
  argument: [
    (string (command_substitution (pipeline (command name: (command_name (word) @_decode) argument: (word) @_option) .)))
    (command_substitution (pipeline (command name: (command_name (word) @_decode) argument: (word) @_option) .))
    (string (command_substitution (redirected_statement body: (command name: (command_name (word) @_decode) argument: (word) @_option))))
  ]
  (#eq? @_eval "eval")
  (#any-of? @_decode "base64" "base32")
  (#any-of? @_option "-d" "--decode" "-D")
  (#set! rule "code_injection") (#set! certainty "certain")) @found

(pipeline
  (command name: (command_name (word) @_fetch))
  .
  (command name: (command_name (word) @_shell)) .
  (#any-of? @_fetch "curl" "wget")
  (#match? @_shell "^(/usr)?(/bin/)?(ba|da|z|k)?sh$")
  (#set! rule "code_injection") (#set! certainty "suspicious")) @found

; --- reverse_shell: a shell for whoever waits at the other end

(redirected_statement
  body: (command
    name: (command_name (word) @_shell)
    argument: (word) @_option)
  redirect: (file_redirect destination: (word) @_device)
  (#match? @_shell "^(/usr)?(/bin/)?(ba|da|z|k)?sh$")
  (#eq? @_option "-i")
  (#match? @_device "^/dev/(tcp|udp)/")
  (#set! rule "reverse_shell") (#set! certainty "certain")) @found

(command
  name: (command_name (word) @_nc)
  argument: (word) @_option
  .
  argument: (word) @_shell
  (#any-of? @_nc "nc" "ncat" "netcat" "nc.traditional")
  (#match? @_option "^-[a-z]*[ec]$")
  (#match? @_shell "^(/usr)?(/bin/)?(ba|da|z|k)?sh$")
  (#set! rule "reverse_shell") (#set! certainty "certain")) @found

; --- destruction: everything is removed, or a disk overwritten

(command
  name: (command_name (word) @_remove)
  (#match? @_remove "^(/usr)?(/bin/)?rm$")
  (#match? @found "^[^ ]+ +([^'\"]* )?(-[a-zA-Z]*[rR][a-zA-Z]*|--recursive) +([^'\"]* )?/+[*.]?( |$)")
  (#set! rule "destruction") (#set! certainty "certain")) @found

(command
  name: (command_name (word) @_write)
  argument: (word) @_disk
  (#any-of? @_write "dd" "shred" "mkfs" "mkfs.ext4" "mkfs.ext3" "mkfs.xfs" "wipefs")
  (#match? @_disk "^(of=)?/dev/(sd[a-z]|vd[a-z]|nvme[0-9]+n[0-9]+|mmcblk[0-9]+)$")
  (#set! rule "destruction") (#set! certainty "certain")) @found

(file_redirect
  destination: (word) @found
  (#match? @found "^/dev/(sd[a-z]|vd[a-z]|nvme[0-9]+n[0-9]+|mmcblk[0-9]+)$")
  (#set! rule "destruction") (#set! certainty "certain"))
