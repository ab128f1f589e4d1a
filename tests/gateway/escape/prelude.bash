# Comes before the Bash of every attempt. Nothing here is a program: builtins are all there is at every level.
refusal() { # TEXT: the name of the error that the text ends with
  case $1 in
    *'No such file or directory') echo ENOENT ;;
    *'Permission denied') echo EACCES ;;
    *'Operation not permitted') echo EPERM ;;
    *'Read-only file system') echo EROFS ;;
    *'No such process') echo ESRCH ;;
    *'Not a directory') echo ENOTDIR ;;
    *'Is a directory') echo EISDIR ;;
    *'No such device or address') echo ENXIO ;;
    *'Network is unreachable') echo ENETUNREACH ;;
    *'Connection refused') echo ECONNREFUSED ;;
    *'No space left on device') echo ENOSPC ;;
    *'File too large') echo EFBIG ;;
    *'Too many open files') echo EMFILE ;;
    *'Bad file descriptor') echo EBADF ;;
    *'Invalid argument') echo EINVAL ;;
    *'Resource temporarily unavailable' | *'retry: '*) echo EAGAIN ;;
    *'Name or service not known' | *'Temporary failure in name resolution') echo ENAME ;;
    *'command not found') echo NOTFOUND ;;
    *) echo OTHER ;;
  esac
}

attempt() { # COMMANDS: what is refused fails and says so
  local said status
  said=$( (eval "$1") 2>&1 </dev/null)
  status=$?
  if ((status == 0)); then
    echo "ESCAPED: $1: ${said:0:200}"
  else
    echo "refused: $(refusal "$said") $status ${said: -200}"
  fi
}

find_nothing() { # COMMANDS that a program may run, and which print nothing unless there is something of others
  local said
  said=$(eval "$1" 2>/dev/null)
  if [[ -z $said ]]; then echo "refused: nothing"; else echo "ESCAPED: $1: ${said:0:200}"; fi
}
