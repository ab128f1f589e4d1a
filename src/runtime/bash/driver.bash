# The Bash driver: runs executions for a gateway and keeps the shell's state. Started as
# `bash --noprofile --noediting --rcfile driver.bash -i` with the control socket as descriptor 3.
#
#   driver.bash    descriptors, the cycle, how the shell starts
#   control.bash   frames, numbers and acknowledgements on the control socket
#   shelter.bash   what the user's settings must not do to the driver, and getting them back
#   syntax.bash    whether code is complete
#   jsontext.bash  text to JSON and back
#   queries.bash   completion, documentation, "is this finished?"; read when the first comes
#   loop.bash      standard input of the idle shell, see below
#
# One turn of the cycle, at the top level of the shell, never inside a function, so that `declare` means what it says:
#
#     next ── waits for an execution, gives the user's settings back
#     eval ── the user's code, with the user's descriptors 0, 1 and 2
#     end  ── shelters from the user's settings, tells the end, puts the settings by
#
# The shell runs it as PROMPT_COMMAND: only there is it interactive enough to live on after SIGINT, and not so much as
# to print "exit" or "[1] 1234". SIGINT throws away whatever runs, and the shell reads its next command, which loop.bash
# has ready: `end`, if code was thrown away. The lines of loop.bash are 64 bytes long, for bash reads ahead by 128 or
# 1024. The idle shell has /dev/null as descriptors 1 and 2: prompts and traces of the driver end there.
#
# Names of the driver begin with `__repltool`, those of local variables with `__r_`. Its functions call builtins through
# `builtin`, because a function of the user's may have a builtin's name; what is parsed only when the user may have made
# aliases says `\builtin`.

builtin trap '' INT
builtin set +o history +H
builtin unset -v HISTFILE MAILCHECK
declare -r __repltool_home=${BASH_SOURCE[0]%/*}
declare -A __repltool=(
  [n]=0 [last]=0 [m]=0 [low]=1 # the execution that runs, the last one that is done, the last message, the first kept
  [state]= [flag]=             # taken, running or neither; whether an interrupt came for an execution before it ran
  [code]= [source]= [line]=1   # what is evaluated, the user's part of it if it is not all, the number of its first line
  [ran]= [status]= [failed]= [exit]=0 # how it went, and the `$?` that the next one sees
  [in]=240 [err]=244 [ack]=    # descriptors of the code, the last message that the gateway has stored
  [next]= [success]= [exception]= [done]= # what is prepared for the end: number and fields of the message, the message
  [back]= [traps]= [builtin]= [flags]= [failing]= # how to bring the user's settings back; see shelter.bash
)

# 240 /dev/null · 241 control · 242, 243, 244 standard input, output, error · 245, 246 a pipe of the driver to itself.
# What bash saves when it redirects to one of these has a number above it, where no program expects it to be free.
__repltool_hide() { # FROM TO: moves a descriptor; no program that is executed has it
  # The copy that a redirection of descriptor 0 saves is closed on exec, and a copy of that one is too.
  builtin local saved
  exec {saved}<&0 {saved}<&-
  builtin eval "exec 0<&$1 $1<&-
  { exec $2<&$saved; } 0<&2"
}

__repltool_open() {
  builtin local fd
  exec 240<>/dev/null 242<&0 243<&1 244<&2 245<&4 246>&5 4<&- 5>&-
  __repltool_hide 3 241
  for fd in 240 242 243 244 245 246; do
    exec 9<&$fd
    __repltool_hide 9 "$fd"
  done
  exec 0<"$__repltool_home/loop.bash" 1>&240 2>&240
}
__repltool_open
builtin unset -f __repltool_hide __repltool_open

for __repltool_file in control shelter syntax jsontext; do
  builtin source "$__repltool_home/$__repltool_file.bash"
done
builtin unset -v __repltool_file REPLY

# Nothing is in double quotes here: bash 5.2 crashes at them when `$(` in the user's code has no end.
declare -r __repltool_end='__repltool[FUNCNEST]=${FUNCNEST-} FUNCNEST=
\builtin enable declare local printf trap || \__repltool_reclaim_builtins
\builtin declare -F builtin && \__repltool_reclaim_builtins
\builtin trap -p INT ERR RETURN DEBUG >&246
\builtin trap __repltool_note_interrupt INT
\builtin trap - DEBUG ERR RETURN
\__repltool_report
\__repltool_put_by'
declare -r __repltool_cycle='\__repltool_next
\builtin eval "${__repltool[code]:LINENO=__repltool[line],0}" 0<&"${__repltool[in]}" 1>&243 2>&244 \
  2>&"${__repltool[err]:__repltool[ran]=0}" && __repltool[status]=0 || __repltool[status]=$?
'"$__repltool_end"

declare -r __repltool_usual=$SHELLOPTS:$BASHOPTS

# Without a limit endless recursion would end the shell by a signal. A stack of 8 MiB holds 2000 calls of most functions.
[[ -n ${FUNCNEST-} ]] || FUNCNEST=1000
__repltool[FUNCNEST]=$FUNCNEST
PS1= PS2= PS4='+ '
PROMPT_COMMAND=$__repltool_cycle
builtin readonly -f $(builtin compgen -A function __repltool)
builtin trap __repltool_note_interrupt INT
__repltool[m]=1
__repltool[kept1]="{\"t\":\"ready\",\"m\":1,\
\"version\":\"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}\"}"
__repltool_send "${__repltool[kept1]}"
