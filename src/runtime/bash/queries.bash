# Answers about code: completion, documentation, whether it is complete. It runs none of it; what it has to ask bash for
# it asks in subshells. Text is in characters here, whatever the user's locale.

__repltool_reply() { # N KIND CODE CURSOR
  builtin local __r_body='{}'
  case $2 in
    complete) __repltool_complete __r_body "$3" "$4" ;;
    inspect) __repltool_inspect __r_body "$3" "$4" ;;
    is_complete) __repltool_judge __r_body "$3" ;;
  esac
  __repltool_send "{\"t\":\"reply\",\"n\":$1,\"body\":$__r_body}"
}

__repltool_judge() { # VARIABLE CODE
  builtin local __r_indent=
  __repltool_parse "$2"
  [[ ${__repltool[syntax]} != incomplete ]] || __r_indent='    '
  builtin printf -v "$1" '{"status":"%s","indent":"%s"}' "${__repltool[syntax]}" "$__r_indent"
}

__repltool_complete() { # VARIABLE CODE CURSOR
  builtin local LC_ALL=C.UTF-8 __r_before __r_word __r_match __r_text __r_list= __r_count=0
  __r_before=${2:0:$3}
  __r_word=${__r_before##*[$' \t\n;|&()<>="\'`:']}
  __r_before=${__r_before:0:${#__r_before}-${#__r_word}}
  __repltool_candidates "$__r_word" "$__r_before"
  while builtin read -r __r_match && ((__r_count < 500)); do
    if [[ $__r_match != __repltool* ]]; then
      LC_ALL=C __repltool_quote __r_text "$__r_match"
      __r_list+=${__r_list:+,}$__r_text
      ((++__r_count))
    fi
  done <<<"${__repltool[matches]}"
  [[ -n ${__repltool[matches]} ]] || __r_list=
  builtin printf -v "$1" '{"matches":[%s],"cursor_start":%d,"cursor_end":%d}' "$__r_list" \
    "$(($3 - ${#__r_word} + __repltool[skip]))" "$3"
}

# Leaves the matches, a line each, and how much of the word they do not replace.
__repltool_candidates() { # WORD BEFORE
  builtin local __r_word __r_lead __r_opening
  __r_opening='@(then|do|else|if|while|until|!|{)'
  __r_word=$1 __r_lead=${2%"${2##*[!$' \t']}"}
  __repltool[skip]=0
  if [[ $__r_word == *'$'* ]]; then
    __r_lead=${__r_word%"${__r_word##*'$'}"} __r_word=${__r_word##*'$'}
    [[ $__r_word != '{'* ]] || __r_lead+='{' __r_word=${__r_word#'{'}
    __repltool[skip]=${#__r_lead}
    __repltool[matches]=$(builtin compgen -A variable -- "$__r_word" 2>&240)
  elif [[ $__r_word == */* ]]; then
    __repltool[matches]=$(__repltool_files "$__r_word")
  elif [[ -z $__r_lead || $__r_lead == *[$'\n;|&(`'] || " $__r_lead" == *[[:space:]]$__r_opening ]]; then
    __repltool[matches]=$(builtin compgen -A command -- "$__r_word" 2>&240 | __repltool_unique)
  else
    __repltool[matches]=$(__repltool_files "$__r_word")
  fi
}

__repltool_unique() {
  builtin local __r_line
  builtin local -A __r_seen
  while builtin read -r __r_line; do
    [[ -n ${__r_seen[x$__r_line]-} ]] || builtin printf '%s\n' "$__r_line"
    __r_seen[x$__r_line]=1
  done
}

__repltool_files() { # PREFIX
  builtin local __r_file
  builtin compgen -A file -- "$1" 2>&240 | while builtin read -r __r_file; do
    [[ ! -d $__r_file ]] || __r_file+=/
    builtin printf '%s\n' "$__r_file"
  done
}

__repltool_inspect() { # VARIABLE CODE CURSOR
  builtin local LC_ALL=C.UTF-8 __r_left __r_right __r_word __r_text
  __r_left=${2:0:$3} __r_right=${2:$3}
  __r_word=${__r_left##*[!a-zA-Z0-9_.+:@[-]}${__r_right%%[!a-zA-Z0-9_.+:@[-]*}
  __r_text=$(__repltool_describe "$__r_word" 2>&240)
  if [[ -z $__r_word || -z $__r_text ]]; then
    builtin printf -v "$1" '{"found":false,"data":{}}'
    builtin return
  fi
  LC_ALL=C
  __repltool_quote __r_text "${__r_text:0:65536}"
  builtin printf -v "$1" '{"found":true,"data":{"text/plain":%s}}' "$__r_text"
}

__repltool_describe() { # WORD
  [[ $1 != __repltool* ]] || builtin return
  builtin declare -p -- "$1"
  builtin type -- "$1" && [[ $(builtin type -t -- "$1") == @(builtin|keyword) ]] && builtin help -- "$1"
}
