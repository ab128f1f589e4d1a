# The driver's end of the control socket. A frame is 8 decimal digits and as many bytes of JSON. Messages that must not
# be lost carry a number "m" and are kept until they are acknowledged; after a `hello` they are sent again, in order.

__repltool_leave() { # STATUS: ends the shell, whatever functions the user has made
  POSIXLY_CORRECT=1
  trap - EXIT
  exit "$1"
}

__repltool_send() { # PAYLOAD: ASCII, or LC_ALL=C is in force
  builtin printf '%08d%s' "${#1}" "$1" >&241 || __repltool_leave 76
}

# An interrupt counts for an execution that has been sent. One that comes while nothing waits in the socket was for the
# execution before. While the driver waits for a subshell of its own, SIGINT is ignored instead: bash 5.2 sends itself
# SIGINT for ever if one comes in the very instant in which it begins to wait for a child.
__repltool_note_interrupt() {
  if [[ $__repltool_state == taken ]] || builtin read -t 0 -u 241; then
    __repltool_flag=1
  fi
}

# Forgets what the gateway has stored, and puts the last message, if it is not stored, with the others that are kept:
# until then it stands in a variable of its own.
__repltool_forget() {
  [[ ${__repltool[failed]@a} == A ]] || __repltool_leave 70
  ((__repltool_low > __repltool_m)) || __repltool[kept$__repltool_m]=$__repltool_done
  while ((__repltool_low <= __repltool_ack && __repltool_low <= __repltool_m)); do
    builtin unset -v "__repltool[kept$__repltool_low]"
    __repltool_low=$((__repltool_low + 1))
  done
}

__repltool_serve() { # FRAME, not an execution
  __repltool_enable
  case $1 in
    '{"t":"part",'*) __repltool_collect "$1" ;;
    '{"t":"ack",'*) __repltool_acknowledged "$1" ;;
    '{"t":"hello",'*) __repltool_greet "$1" ;;
    '{"t":"begin",'*) __repltool_begin "$1" ;;
    '{"t":"query",'*) __repltool_answer "$1" ;;
    '{'*) ;;
    *) __repltool_leave 76 ;;
  esac
}

# What a session has of its own, if the shell was ready before anybody knew of that session. Nothing of the user's has run
# yet. A quote inside a JSON string has a backslash before it, so what looks like the border of two strings is.
__repltool_begin() { # FRAME
  builtin local __r_rest __r_variable __r_directory
  __r_rest=${1#*'"directory":"'} __r_rest=${__r_rest%']}'}
  __repltool_unquote __r_directory "${__r_rest%%'","environment":['*}"
  __r_rest=${__r_rest#*'","environment":['}
  while [[ -n $__r_rest ]]; do
    __r_variable=${__r_rest%%'","'*}
    __r_rest=${__r_rest:${#__r_variable}+2}
    [[ -n $__r_rest ]] || __r_variable=${__r_variable%\"}
    __repltool_unquote __r_variable "${__r_variable#\"}"
    [[ $__r_variable == __r@(_|epltool)* ]] || builtin export "$__r_variable"
  done
  [[ -n $__r_directory ]] || builtin return 0
  builtin cd -P -- "/workspace/$__r_directory"
  builtin unset -v OLDPWD
  builtin declare -gx OLDPWD
}

__repltool_acknowledged() { # FRAME
  __repltool_ack=${1#*'"m":'}
  __repltool_ack=${__repltool_ack%\}}
  __repltool_forget
}

__repltool_greet() { # FRAME. A gateway looks for these very bytes: the order of keys matters.
  builtin local LC_ALL=C __r_nonce __r_m
  ((__repltool_low > __repltool_m)) || __repltool[kept$__repltool_m]=$__repltool_done
  __r_nonce=${1#*'"nonce":"'}
  __repltool_flag=
  __repltool_send "{\"t\":\"hello\",\"nonce\":\"${__r_nonce%%\"*}\",\"last\":$__repltool_last}"
  for ((__r_m = __repltool_low; __r_m <= __repltool_m; __r_m++)); do
    __repltool_send "${__repltool[kept$__r_m]}"
  done
}

__repltool_collect() { # FRAME
  builtin local LC_ALL=C __r_rest __r_n __r_i __r_text
  __r_rest=${1#*'"n":'}
  __r_n=${__r_rest%%,*} __r_rest=${__r_rest#*'"i":'}
  __r_i=${__r_rest%%,*} __r_rest=${__r_rest#*'"s":"'}
  ((__r_i)) || __repltool[parts_of]=$__r_n __repltool[parts]=0 __repltool[text]=
  [[ ${__repltool[parts_of]} == "$__r_n" ]] && ((__r_i <= __repltool[parts])) || __repltool_leave 76
  if ((__r_i == __repltool[parts])); then
    __repltool_unquote __r_text "${__r_rest%\"\}}"
    __repltool[text]+=$__r_text
    __repltool[parts]=$((__r_i + 1))
  fi
  __repltool_send "{\"t\":\"part\",\"n\":$__r_n,\"i\":$__r_i}"
}

# Reads `"code":"…"` or `"parts":K` into a variable. A quote inside a JSON string has a backslash before it, so what
# looks like the end of the string is.
__repltool_code() { # VARIABLE N TEXT
  [[ $3 != *[![:ascii:]]* ]] || builtin local LC_ALL=C
  if [[ $3 == '"code":"'* ]]; then
    __repltool_unquote "$1" "${3:8:${#3}-9}"
    builtin return
  fi
  [[ ${__repltool[parts_of]} == "$2" && ${3#'"parts":'} == "${__repltool[parts]}" ]] || __repltool_leave 76
  builtin printf -v "$1" %s "${__repltool[text]}"
  __repltool[parts_of]= __repltool[text]=
}

__repltool_answer() { # FRAME
  builtin declare -F __repltool_reply >&240 || builtin source "$__repltool_home/queries.bash"
  builtin local LC_ALL=C __r_rest __r_head __r_n __r_kind __r_cursor=0 __r_code
  __r_rest=${1%\}}
  __r_head=${__r_rest%',"cursor":'*}
  [[ $__r_head == "$__r_rest" ]] || __r_cursor=${__r_rest:${#__r_head}+10}
  __r_rest=${__r_head#*'"n":'}
  __r_n=${__r_rest%%,*} __r_rest=${__r_rest#*'"kind":"'}
  __r_kind=${__r_rest%%\"*}
  __repltool_code __r_code "$__r_n" "${__r_rest#*,}"
  builtin trap '' INT
  __repltool_reply "$__r_n" "$__r_kind" "$__r_code" "$__r_cursor"
  builtin trap __repltool_note_interrupt INT
}
