package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/session"
)

// A value that a flag cannot take is a usage error. It names the flag, the value, and the range or form.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	startNode(t)
	const form = "duration with a unit, such as 500ms, 2s or 1m"
	for args, says := range map[string]string{
		"id allocate --count 99999999999":             `--count "99999999999": want a whole number, 1 to 65536`,
		"id allocate --count 0":                       `--count "0": want a whole number, 1 to 65536`,
		"ping --count 1000001":                        `--count "1000001": want a whole number, 1 to 1000000`,
		"id new --layout snowflake --count 100001":    `--count "100001": want a whole number, 1 to 100000`,
		"tree --most 1000001":                         `--most "1000001": want a whole number, 1 to 1000000`,
		"lock ls --most 100001":                       `--most "100001": want a whole number, 1 to 100000`,
		"session ls --owner 300":                      `--owner "300": want a whole number, 0 to 254`,
		"session ls --min-age -1s":                    `--min-age "-1s": want a duration that is not negative`,
		"session ls --max-remaining -1s":              `--max-remaining "-1s": want a duration that is not negative`,
		"session ls --read-only=maybe":                `--read-only "maybe": want true or false`,
		"session ls --call-timeout 0s":                `--call-timeout "0s": want a positive ` + form,
		"session open --timeout 5":                    `--timeout "5": want a positive ` + form + ", at most 24h",
		"session open --timeout 9999h":                `--timeout "9999h": want a positive ` + form + ", at most 24h",
		"session hold --timeout 24h1ns":               `--timeout "24h1ns": want a positive ` + form + ", at most 24h",
		"ping --timeout 9999h":                        `--timeout "9999h": want a positive ` + form + ", at most 24h",
		"ping --timeout abc":                          `--timeout "abc": want a positive ` + form + ", at most 24h",
		"id new --datacenter -3 --worker 1":           `--datacenter "-3": want a whole number, 0 to 31`,
		"id new --datacenter 1 --worker 1 --spares x": `--spares "x": want whole numbers with commas between`,
	} {
		code, stdout, stderr := execute(t, "", strings.Fields(args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, says) || strings.Contains(stderr, "strconv") {
			t.Errorf("%s: exit code %d, want %d; %q, want %q in it", args, code, exitUsage, stderr, says)
		}
	}
}

// "session open" takes the longest timeout, and a label with an empty value, as its help says.
func TestOpenTakesWhatItsHelpSays(t *testing.T) {
	n := startNode(t)
	if code, _, stderr := execute(t, "", "session", "open", "--timeout", "24h", "--label",
		"service="); code != exitDone {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if got := n.calls(); len(got) != 1 || got[0] != "open 24h0m0s " {
		t.Errorf("got %q", got)
	}
}

// The refusal of a token as an argument does not repeat the token: it is a secret.
func TestATokenAsAnArgumentIsNotRepeated(t *testing.T) {
	startNode(t)
	for command, says := range map[string]string{
		"session show": "before the first dot", "id decode": "before the first dot", "session": "before the first dot",
		"session close": "--token-file", "session touch": "--token-file", "session hold": "--token-file",
		"session open": "takes no arguments", "cluster status": "takes no arguments",
	} {
		code, stdout, stderr := execute(t, "", append(strings.Fields(command), tokenText)...)
		if code != exitUsage || !strings.Contains(stderr,
			"token") || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %q, want %q in it", command, code, stderr, says)
		}
		if strings.Contains(stdout+stderr, livingToken().ID.String()) || strings.Contains(stdout+stderr, "ab00000000") {
			t.Errorf("%s repeats the token: %q, %q", command, stdout, stderr)
		}
	}
}

// An error that repeats a token given by mistake leaves out the credential.
func TestATokenInAnErrorIsNotRepeated(t *testing.T) {
	startNode(t)
	for _, args := range [][]string{
		{tokenText},
		{"session", "touch", "--token-file", tokenText},
		{"id", "zxid", tokenText},
		{"session", "touch", "-t" + tokenText},
		{"session", "ls", "--owner", tokenText},
		{"session", "ls", "--endpoints", tokenText},
		{"session", "ls", "--" + tokenText},
	} {
		code, stdout, stderr := execute(t, "", args...)
		if code != exitUsage || strings.Contains(stdout+stderr, "ab00000000") {
			t.Errorf("%.20q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// Addresses, paths and ids are not taken for tokens.
func TestWhatIsNoToken(t *testing.T) {
	for _, text := range []string{
		"node1.example.com:7400", "./token", "127.0.0.1:7400", "0x0100000000000007",
		"deadbeef.example.org",
	} {
		if isToken(text) || withoutSecrets(text) != text {
			t.Errorf("%q is taken for a token and shown as %q", text, withoutSecrets(text))
		}
	}
	if got, want := withoutSecrets("open "+tokenText+": no such file"), "open "+livingToken().ID.String()+
		".(secret): no such file"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The refusal of endpoints names them once, with the form that is expected.
func TestEndpointsThatAreNone(t *testing.T) {
	for _, endpoints := range []string{",", "", "localhost", "localhost:", "localhost:7400,,x"} {
		for _, command := range []string{"session ls", "session hold", "ping", "cluster status"} {
			code, stdout, stderr := execute(t, "", append(strings.Fields(command), "--endpoints", endpoints)...)
			want := fmt.Sprintf(
				"holdfast: --endpoints %q: want host:port of nodes, with commas between, as in "+
					"localhost:7400,localhost:7410 (or HOLDFAST_ENDPOINTS)\n", endpoints,
			)
			if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, want) ||
				strings.Count(stderr, "host:port") != 1 {
				t.Errorf("%s --endpoints %q: exit code %d, %q, want %q", command, endpoints, code, stderr, want)
			}
		}
	}
}

// A call that runs out of time names --call-timeout.
func TestCallsThatAreCutShortNameTheFlag(t *testing.T) {
	n := startNode(t)
	n.isIn(session.ModeReadOnly)
	token := " --token-file " + tokenFile(t, tokenText)
	for _, args := range []string{
		"session open", "session hold", "session ls", "session show 0x1", "session close" + token, "session touch" + token,
		"session upgrade --token-file " + tokenFile(t, tokenText+".local"), "cluster members", "id allocate",
	} {
		_, _, stderr := execute(t, "", append(strings.Fields(args), "--call-timeout", "1ns")...)
		if !strings.Contains(stderr, "not done within --call-timeout 1ns") ||
			strings.Contains(stderr, context.DeadlineExceeded.Error()) {
			t.Errorf("%s: %q", args, stderr)
		}
	}
}

// foreignServers returns addresses of servers that are not the client port of a node: one of gRPC, one of HTTP/1.
func foreignServers(t *testing.T) map[string]string {
	t.Helper()
	n := startNodeWith(t, func(server *grpc.Server) {
		grpc_health_v1.RegisterHealthServer(server, grpc_health_v1.UnimplementedHealthServer{})
	})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	return map[string]string{"grpc": n, "http": web.Listener.Addr().String()}
}

func TestWhatAnswersIsNoNode(t *testing.T) {
	for kind, address := range foreignServers(t) {
		says := address + " is not a client port; clients use 7400"
		for _, command := range []string{"cluster status", "ping"} {
			inTime(t, func(limit string) string {
				code, stdout, stderr := execute(t, "",
					append(strings.Fields(command), "--call-timeout", limit, "--endpoints", address)...)
				if code != exitUnreachable || !strings.Contains(stdout, "not a client port; clients use 7400") ||
					!strings.Contains(stderr, says) || strings.Contains(stdout+stderr, "rpc error") {
					return fmt.Sprintf("%s, %s: exit code %d, %q, %s, want %s", kind, command, code, stderr, stdout, says)
				}
				if command == "cluster status" &&
					!strings.Contains(stdout, address+" gives no status: not a client port; clients use 7400 unless set otherwise\n") {
					return fmt.Sprintf("%s: no cause in the line of\n%s", kind, stdout)
				}
				return ""
			})
		}
		for _, command := range []string{"session ls", "session open", "session touch --token-file " +
			tokenFile(t, tokenText), "cluster members"} {
			inTime(t, func(limit string) string {
				code, _, stderr := execute(t, "",
					append(strings.Fields(command), "--call-timeout", limit, "--endpoints", address)...)
				if code != exitUnreachable ||
					!strings.HasSuffix(stderr, "\n"+address+" is not a client port; clients use 7400 unless set otherwise.\n") {
					return fmt.Sprintf("%s, %s: exit code %d, %q", kind, command, code, stderr)
				}
				return ""
			})
		}
	}
}

// The row of a node that does not answer says why in few words.
func TestStatusSaysWhyANodeDoesNotAnswer(t *testing.T) {
	n, closed := startNode(t), closedPort(t)
	code, stdout, _ := execute(t, "", "cluster", "status", "--endpoints", n.address+","+closed)
	row := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(closed) + `( +-){5} +no$`)
	if code != exitFailed || !row.MatchString(stdout) ||
		!strings.HasSuffix(stdout, "\n"+closed+" gives no status: connection refused\n") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
}

// brief returns the innermost error, and takes it from the dialer where gRPC gives text only.
func TestBrief(t *testing.T) {
	unreachable := fmt.Errorf("ask h:1 for its status: %w", client.ErrUnreachable)
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, tt := range map[string]struct {
		err, dialled error
		want         string
	}{
		"no such host": {
			unreachable, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "h", Server: "ns:53"}},
			"no such host",
		},
		"refused":              {unreachable, refused, "connection refused"},
		"hung up":              {unreachable, &hungUpError{io.EOF}, "EOF"},
		"silence":              {fmt.Errorf("ask h:1: %w", errors.New("no answer in time")), nil, "no answer in time"},
		"not a client port":    {fmt.Errorf("ask h:1: %w", &notClientPortError{"h:1"}), errHTTP1, notClientPort},
		"refusal of a node":    {fmt.Errorf("ask h:1: %w", session.ErrNoLeader), refused, session.ErrNoLeader.Error()},
		"status without a why": {fmt.Errorf("ask h:1: %w", status.Error(codes.Internal, "broken")), nil, "broken"},
	} {
		var asked target
		asked.dialer.note("h:1", tt.dialled)
		if got := asked.brief("h:1", tt.err); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// A node that hangs up because of its limit of connections is not called a wrong port. Nor is a node of an older
// release, which lacks a newer service.
func TestWhatMayBeANodeIsNotForeign(t *testing.T) {
	var asked target
	asked.dialer.note("h:1", &hungUpError{syscall.ECONNRESET})
	for _, err := range []error{
		nil, session.ErrNoLeader, status.Error(codes.Unimplemented, "unknown service holdfast.v1.IdService"),
		context.DeadlineExceeded, fmt.Errorf("%w: h:1: no answer in time", client.ErrUnreachable),
	} {
		if asked.foreign(err) {
			t.Errorf("%v: is foreign", err)
		}
	}
	if late := error(lateError{time.Second}); !errors.Is(late, context.DeadlineExceeded) {
		t.Errorf("%v is not context.DeadlineExceeded", late)
	}
}

// A server of HTTP/1 explains that no node answered. It does not explain a node's refusal.
func TestHTTP1IsForeignOnlyWhenNoNodeAnswered(t *testing.T) {
	var asked target
	asked.dialer.note("h:1", errHTTP1)
	if err := fmt.Errorf("open: %w", client.ErrUnreachable); !asked.foreign(err) {
		t.Errorf("%v: is not foreign", err)
	}
	if asked.foreign(session.ErrNoLeader) {
		t.Errorf("%v: is foreign", session.ErrNoLeader)
	}
}

// An error does not always name the wrong endpoint, so the advice about several endpoints blames none of them.
func TestAdviceOfSeveralEndpoints(t *testing.T) {
	err := errors.New("unknown service holdfast.v1.ClusterService")
	for want, endpoints := range map[string][]string{
		"n1:7401 is not a client port":                {"n1:7401"},
		"One of n1:7400,n2:7401 is not a client port": {"n1:7400", "n2:7401"},
	} {
		asked := target{endpoints: endpoints}
		if got := asked.advice(err); !strings.HasPrefix(got, want+"; clients use 7400") {
			t.Errorf("%v: %q", endpoints, got)
		}
	}
}

// A node above its limit of connections hangs up: the advice names the limit.
func TestAdviceWhenANodeHangsUp(t *testing.T) {
	address := hangingUp(t)
	for address, want := range map[string]bool{address: true, closedPort(t): false} {
		inTime(t, func(limit string) string {
			code, _, stderr := execute(t, "", "session", "ls", "--call-timeout", limit, "--endpoints", address)
			if code != exitUnreachable || strings.Contains(stderr, "max_connections") != want {
				return fmt.Sprintf("%s: exit code %d, %q", address, code, stderr)
			}
			return ""
		})
	}
}

// A node that refuses has answered: the cluster can be reached, even if all other nodes are silent.
func TestSilentNodes(t *testing.T) {
	silent := fmt.Errorf("%w: connection refused", client.ErrUnreachable)
	for name, tt := range map[string]struct {
		errs              []error
		failed, unreached bool
	}{
		"all answer":                   {[]error{nil, nil}, false, false},
		"one is silent":                {[]error{nil, silent}, true, false},
		"one refuses, one is silent":   {[]error{session.ErrNoLeader, silent}, true, false},
		"all are silent":               {[]error{silent, silent}, true, true},
		"one answers, one refuses":     {[]error{nil, session.ErrNoLeader}, true, false},
		"the only one refuses":         {[]error{session.ErrNoLeader}, true, false},
		"the only one says not a word": {[]error{silent}, true, true},
	} {
		if err := silentNodes(tt.errs); (err != nil) != tt.failed ||
			errors.Is(err, client.ErrUnreachable) != tt.unreached {
			t.Errorf("%s: %v", name, err)
		}
	}
}
