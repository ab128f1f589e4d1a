# The Bash driver: runs executions for a gateway and keeps the shell's state. Started as
# `bash --noprofile --noediting --rcfile driver.bash -i` with the control socket as descriptor 3.
#
#   driver.bash    descriptors, variables, how the shell starts
#   cycle.bash     what the shell does again and again
#   control.bash   frames, numbers and acknowledgements on the control socket
#   shelter.bash   what the user's settings must not do to the driver, and getting them back
#   syntax.bash    whether code is complete
#   jsontext.bash  text to JSON and back
#   queries.bash   completion, documentation, "is this finished?"; read when the first comes
#   loop.bash      standard input of the idle shell, see below
#
# One turn of the cycle:
#
#     wait ── for an execution, which has the user's settings brought back
#     eval ── the user's code, with the user's descriptors 0, 1 and 2
#     calm ── gets hold of the shell, whatever the user has set
#     tell ── the end of the execution, and puts the user's settings by
#
# The shell runs it as PROMPT_COMMAND: only there is it interactive enough to live on after SIGINT, and not so much as
# to print "exit" or "[1] 1234". SIGINT throws away whatever runs, and the shell reads its next command, which loop.bash
# has ready: if code was thrown away, `end`, which is `calm` and has the next prompt begin the cycle again. The lines of
# loop.bash are 64 bytes long, for bash reads ahead by 128 or 1024. The idle shell has /dev/null as descriptors 1 and 2:
# prompts and traces of the driver end there.
#
# Names of the driver begin with `__repltool`, those of local variables with `__r_`. Its functions call builtins through
# `builtin`, because a function of the user's may have a builtin's name; what is parsed only when the user may have made
# aliases says `\builtin`.

builtin trap '' INT
builtin set +o history +H
builtin unset -v HISTFILE MAILCHECK
declare -r __repltool_home=${BASH_SOURCE[0]%/*}
__repltool_n=0 __repltool_last=0 __repltool_exit=0 # the execution that runs, the last that is done, the next one's `$?`
__repltool_m=1 __repltool_low=1    # the last message, the first that is kept
__repltool_state= __repltool_flag= # taken, running, ended or none; whether an interrupt came for code before it ran
__repltool_code= __repltool_line=1 # what is evaluated, and the number of its first line
__repltool_status= __repltool_ran= # how it went
__repltool_in=240                  # the descriptor of its standard input
__repltool_ack= __repltool_next=   # the last message that the gateway has stored, the number of the next one
# How to bring the user's settings back, and which of them are away; see shelter.bash.
__repltool_back= __repltool_traps= __repltool_builtin= __repltool_funcnest=
__repltool_flags= __repltool_aliases= __repltool_trapped= __repltool_failing=
declare -A __repltool=( # what only unusual executions need
  [source]= [failed]=          # the user's part of the code if it is not all, how a command failed
  [success]= [exception]=      # fields of the message that tells the end
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

# Gets hold of the shell after the user's code; functions enable the rest of what they call. Nothing is in double quotes
# here: bash 5.2 crashes at them when `$(` in the user's code has no end.
__repltool_calm='\builtin enable builtin declare enable eval local printf read return trap || \__repltool_reclaim_builtins
\builtin declare -F builtin && \__repltool_reclaim_builtins
\builtin trap -p >&246
\builtin trap __repltool_note_interrupt 2
\builtin read -t 0 -u 245 && \builtin trap - DEBUG ERR RETURN && __repltool_trapped=yes'
declare -r __repltool_end='__repltool_funcnest=${FUNCNEST-} FUNCNEST=
__repltool_back= __repltool_traps= __repltool_flags=
'"$__repltool_calm"'
\__repltool_go_round'

IFS= builtin read -r -d '' __repltool_cycle <"$__repltool_home/cycle.bash"
__repltool_cycle=${__repltool_cycle#*$'\n\n'}
__repltool_cycle=${__repltool_cycle/@calm@/"$__repltool_calm"}$__repltool_end
declare -r __repltool_cycle
builtin unset -v __repltool_calm

declare -r __repltool_close=-
declare -r __repltool_usual=$SHELLOPTS:$BASHOPTS

# Without a limit endless recursion would end the shell by a signal. A stack of 8 MiB holds 2000 calls of most functions.
[[ -n ${FUNCNEST-} ]] || FUNCNEST=1000
[[ $FUNCNEST == [1-9][0-9][0-9]* ]] || __repltool_funcnest=$FUNCNEST FUNCNEST=
PS1= PS2= PS4='+ '
PROMPT_COMMAND=$__repltool_cycle
builtin readonly -f $(builtin compgen -A function __repltool)
builtin trap __repltool_note_interrupt INT
builtin trap -p >&240 # the first time it asks Linux about each signal
__repltool_done="{\"t\":\"ready\",\"m\":1,\
\"version\":\"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}\"}"
__repltool_send "$__repltool_done"
