# Every Python process waits for a training framework to be imported and then marks its steps for the agent of
# its node. It costs 2 ms at start, and nothing without an agent; ROOFLINE_DISABLE=1 switches it off.
# The folder is what `/opt/roofline/bin/roofline-agent hooks` prints, without the quarter of a second that takes.
for roofline_hooks in /opt/roofline/lib/python3*/site-packages/roofline_agent/hooks/inject; do
    # A shell within a login shell reads this file again.
    case ":${PYTHONPATH:-}:" in
    *":$roofline_hooks:"*) ;;
    *) [ ! -d "$roofline_hooks" ] || export PYTHONPATH="$roofline_hooks${PYTHONPATH:+:$PYTHONPATH}" ;;
    esac
done
unset roofline_hooks
