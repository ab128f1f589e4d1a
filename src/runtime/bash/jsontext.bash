# Text to JSON and back. LC_ALL=C is in force: a character is a byte.

__repltool_unquote() { # VARIABLE TEXT: what a JSON string means; its escapes but \" are those of printf
  builtin printf -v "$1" %b "${2//\\\"/\"}"
}

__repltool_quote() { # VARIABLE TEXT: a JSON string; bytes that are no UTF-8 become U+FFFD
  builtin local __r_quoted __r_code __r_character __r_escape
  __r_quoted=$2
  [[ $__r_quoted != *[$'\x80'-$'\xff']* ]] || __repltool_scrub __r_quoted "$__r_quoted"
  __r_quoted=${__r_quoted//\\/\\\\} __r_quoted=${__r_quoted//\"/\\\"}
  __r_quoted=${__r_quoted//$'\n'/\\n} __r_quoted=${__r_quoted//$'\t'/\\t}
  if [[ $__r_quoted == *[$'\x01'-$'\x1f']* ]]; then
    for ((__r_code = 1; __r_code < 32; __r_code++)); do
      builtin printf -v __r_escape %04x "$__r_code"
      builtin printf -v __r_character %b "\\u$__r_escape"
      __r_quoted=${__r_quoted//"$__r_character"/"\\u$__r_escape"}
    done
  fi
  builtin printf -v "$1" '"%s"' "$__r_quoted"
}

__repltool_scrub() { # VARIABLE TEXT: the same text, if it is UTF-8
  builtin local __r_tail __r_rest __r_clean= __r_i=0 __r_pattern __r_length
  __r_tail=[$'\x80'-$'\xbf'] __r_rest=$2
  builtin local -A __r_lengths
  __r_lengths=(
    [[$'\xc2'-$'\xdf']$__r_tail]=2
    [$'\xe0'[$'\xa0'-$'\xbf']$__r_tail]=3 [$'\xed'[$'\x80'-$'\x9f']$__r_tail]=3
    [[$'\xe1'-$'\xec'$'\xee'$'\xef']$__r_tail$__r_tail]=3
    [$'\xf0'[$'\x90'-$'\xbf']$__r_tail$__r_tail]=4 [$'\xf4'[$'\x80'-$'\x8f']$__r_tail$__r_tail]=4
    [[$'\xf1'-$'\xf3']$__r_tail$__r_tail$__r_tail]=4
  )
  for __r_pattern in "${!__r_lengths[@]}"; do
    __r_rest=${__r_rest//$__r_pattern/x}
  done
  if [[ $__r_rest != *[$'\x80'-$'\xff']* ]]; then
    builtin printf -v "$1" %s "$2"
    builtin return
  fi
  while ((__r_i < ${#2})); do
    __r_rest=${2:__r_i:4} __r_length=1
    if [[ $__r_rest == [$'\x80'-$'\xff']* ]]; then
      __r_length=0
      for __r_pattern in "${!__r_lengths[@]}"; do
        [[ $__r_rest != $__r_pattern* ]] || __r_length=${__r_lengths[$__r_pattern]}
      done
    fi
    ((__r_length)) && __r_clean+=${__r_rest:0:__r_length} || __r_clean+=$'\xef\xbf\xbd'
    ((__r_i += __r_length ? __r_length : 1))
  done
  builtin printf -v "$1" %s "$__r_clean"
}
