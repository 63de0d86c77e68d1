package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// An invalid value of a flag is a usage error. It names the flag, the value, and the range or form.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	fakenode.Start(t)
	const form = "duration with a unit, such as 500ms, 2s or 1m"
	for args, says := range map[string]string{
		"id allocate --count 99999999999":             `--count "99999999999": want a whole number, 1 to 65536`,
		"id allocate --count 0":                       `--count "0": want a whole number, 1 to 65536`,
		"ping --count 1000001":                        `--count "1000001": want a whole number, 1 to 1000000`,
		"id new --layout snowflake --count 100001":    `--count "100001": want a whole number, 1 to 100000`,
		"tree --limit 1000001":                        `--limit "1000001": want a whole number, 1 to 1000000`,
		"lock ls --limit 100001":                      `--limit "100001": want a whole number, 1 to 100000`,
		"session ls --owner 300":                      `--owner "300": want a whole number, 0 to 254`,
		"session ls --min-age -1s":                    `--min-age "-1s": want a duration that is not negative`,
		"session ls --max-remaining -1s":              `--max-remaining "-1s": want a duration that is not negative`,
		"session ls --read-only=maybe":                `--read-only "maybe": want true or false`,
		"session ls --call-timeout 0s":                `--call-timeout "0s": want a positive ` + form,
		"session open --timeout 5":                    `--timeout "5": want a positive ` + form + ", at most 24h",
		"session open --timeout 9999h":                `--timeout "9999h": want a positive ` + form + ", at most 24h",
		"session keep-alive --timeout 24h1ns":         `--timeout "24h1ns": want a positive ` + form + ", at most 24h",
		"ping --timeout 9999h":                        `--timeout "9999h": want a positive ` + form + ", at most 24h",
		"ping --timeout abc":                          `--timeout "abc": want a positive ` + form + ", at most 24h",
		"id new --datacenter -3 --worker 1":           `--datacenter "-3": want a whole number, 0 to 31`,
		"id new --datacenter 1 --worker 1 --spares x": `--spares "x": want whole numbers with commas between`,
	} {
		code, stdout, stderr := clitest.Execute(t, "", strings.Fields(args)...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, says) || strings.Contains(stderr, "strconv") {
			t.Errorf("%s: exit code %d, want %d; %q, want %q in it", args, code, cli.ExitUsage, stderr, says)
		}
	}
}

// The refusal of a token as an argument does not repeat the token: it is a secret.
func TestATokenAsAnArgumentIsNotRepeated(t *testing.T) {
	fakenode.Start(t)
	for command, says := range map[string]string{
		"session show": "before the first dot", "id decode": "before the first dot", "session": "before the first dot",
		"session close": "--token-file", "session touch": "--token-file", "session keep-alive": "--token-file",
		"session open": "accepts no arguments", "cluster status": "accepts no arguments",
	} {
		code, stdout, stderr := clitest.Execute(t, "", append(strings.Fields(command), fakenode.TokenText)...)
		if code != cli.ExitUsage || !strings.Contains(stderr,
			"token") || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %q, want %q in it", command, code, stderr, says)
		}
		if strings.Contains(stdout+stderr, fakenode.LivingToken().ID.String()) ||
			strings.Contains(stdout+stderr, "ab00000000") {
			t.Errorf("%s repeats the token: %q, %q", command, stdout, stderr)
		}
	}
}

// An error that repeats a token given by mistake leaves out the credential.
func TestATokenInAnErrorIsNotRepeated(t *testing.T) {
	fakenode.Start(t)
	for _, args := range [][]string{
		{fakenode.TokenText},
		{"session", "touch", "--token-file", fakenode.TokenText},
		{"id", "zxid", fakenode.TokenText},
		{"session", "touch", "-t" + fakenode.TokenText},
		{"session", "ls", "--owner", fakenode.TokenText},
		{"session", "ls", "--endpoints", fakenode.TokenText},
		{"session", "ls", "--" + fakenode.TokenText},
	} {
		code, stdout, stderr := clitest.Execute(t, "", args...)
		if code != cli.ExitUsage || strings.Contains(stdout+stderr, "ab00000000") {
			t.Errorf("%.20q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// The refusal of endpoints names them once, with the form that is expected.
func TestEndpointsThatAreNone(t *testing.T) {
	for _, endpoints := range []string{",", "", "localhost", "localhost:", "localhost:7400,,x"} {
		for _, command := range []string{"session ls", "session keep-alive", "ping", "cluster status"} {
			code, stdout, stderr := clitest.Execute(t, "", append(strings.Fields(command), "--endpoints", endpoints)...)
			want := fmt.Sprintf(
				"holdfast: --endpoints %q: want host:port of nodes, with commas between, as in "+
					"localhost:7400,localhost:7410 (or HOLDFAST_ENDPOINTS)\n", endpoints,
			)
			if code != cli.ExitUsage || stdout != "" || !strings.HasPrefix(stderr, want) ||
				strings.Count(stderr, "host:port") != 1 {
				t.Errorf("%s --endpoints %q: exit code %d, %q, want %q", command, endpoints, code, stderr, want)
			}
		}
	}
}

// A call that runs out of time names --call-timeout.
func TestCallsThatAreCutShortNameTheFlag(t *testing.T) {
	n := fakenode.Start(t)
	n.SetMode(session.ModeReadOnly)
	token := " --token-file " + fakenode.TokenFile(t, fakenode.TokenText)
	for _, args := range []string{
		"session open", "session keep-alive", "session ls", "session show 0x1", "session close" + token,
		"session touch" + token,
		"session upgrade --token-file " + fakenode.TokenFile(t, fakenode.TokenText+".local"), "cluster members",
		"id allocate",
	} {
		_, _, stderr := clitest.Execute(t, "", append(strings.Fields(args), "--call-timeout", "1ns")...)
		if !strings.Contains(stderr, "not done within --call-timeout 1ns") ||
			strings.Contains(stderr, context.DeadlineExceeded.Error()) {
			t.Errorf("%s: %q", args, stderr)
		}
	}
}

// foreignServers returns addresses of servers that are not the client port of a node: one of gRPC, one of HTTP/1.
func foreignServers(t *testing.T) map[string]string {
	t.Helper()
	n := fakenode.Serve(t, func(server *grpc.Server) {
		grpc_health_v1.RegisterHealthServer(server, grpc_health_v1.UnimplementedHealthServer{})
	})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	return map[string]string{"grpc": n, "http": web.Listener.Addr().String()}
}

func TestServersThatAreNoNodes(t *testing.T) {
	for kind, address := range foreignServers(t) {
		says := address + " is not a client port; clients use 7400"
		for _, command := range []string{"cluster status", "ping"} {
			clitest.InTime(t, func(limit string) string {
				code, stdout, stderr := clitest.Execute(t, "",
					append(strings.Fields(command), "--call-timeout", limit, "--endpoints", address)...)
				if code != cli.ExitUnreachable || !strings.Contains(stdout, "not a client port; clients use 7400") ||
					!strings.Contains(stderr, says) || strings.Contains(stdout+stderr, "rpc error") {
					return fmt.Sprintf("%s, %s: exit code %d, %q, %s, want %s", kind, command, code, stderr, stdout, says)
				}
				if command == "cluster status" &&
					!strings.Contains(stdout,
						address+" does not answer: not a client port; clients use 7400 unless configured otherwise\n") {
					return fmt.Sprintf("%s: no cause in the line of\n%s", kind, stdout)
				}
				return ""
			})
		}
		for _, command := range []string{"session ls", "session open", "session touch --token-file " +
			fakenode.TokenFile(t, fakenode.TokenText), "cluster members"} {
			clitest.InTime(t, func(limit string) string {
				code, _, stderr := clitest.Execute(t, "",
					append(strings.Fields(command), "--call-timeout", limit, "--endpoints", address)...)
				if code != cli.ExitUnreachable ||
					!strings.HasSuffix(stderr, "\n"+address+" is not a client port; clients use 7400 unless configured otherwise.\n") {
					return fmt.Sprintf("%s, %s: exit code %d, %q", kind, command, code, stderr)
				}
				return ""
			})
		}
	}
}

// A node above its limit of connections hangs up: the advice names the limit.
func TestAdviceWhenANodeHangsUp(t *testing.T) {
	address := fakenode.HangingUp(t)
	for address, want := range map[string]bool{address: true, fakenode.ClosedPort(t): false} {
		clitest.InTime(t, func(limit string) string {
			code, _, stderr := clitest.Execute(t, "", "session", "ls", "--call-timeout", limit, "--endpoints", address)
			if code != cli.ExitUnreachable || strings.Contains(stderr, "max_connections") != want {
				return fmt.Sprintf("%s: exit code %d, %q", address, code, stderr)
			}
			return ""
		})
	}
}

func TestTables(t *testing.T) {
	n := fakenode.Start(t)
	token, local := fakenode.TokenFile(t, fakenode.TokenText), fakenode.TokenFile(t, fakenode.TokenText+".local")
	tests := []struct{ args, want string }{
		{"id decode 0x0100000000010007 0200000000020000", `
ID                  NODE  TIME                      COUNTER
0x0100000000010007  1     2026-01-01T00:00:00.001Z  7
0x0200000000020000  2     2026-01-01T00:00:00.002Z  0`},
		{"id encode --node 1 --time 2026-01-01T00:00:00.001Z --counter 7", `
ID                  NODE  TIME                      COUNTER
0x0100000000010007  1     2026-01-01T00:00:00.001Z  7`},
		{"id encode --node 254 --ms 1", `
ID                  NODE  TIME                      COUNTER
0xfe00000000010000  254   2026-01-01T00:00:00.001Z  0`},
		{"id allocate --count 10", `
first  0x0100000000010007
last   0x0100000000010010
count  10`},
		{"session ls", `
ID                  OWNER  SCOPE   TIMEOUT  REMAINING  OPENED                    LABELS
0x0100000000010007  1      global  10s      1s         2026-01-01T01:30:00.000Z  service=web
0x0100000000010008  1      global  10s      -          2026-01-01T01:30:00.000Z  -`},
		{"session show 0x0100000000010007", `
id            0x0100000000010007
timeout       10s
remaining     7.654s
owner         1
scope         global
attachment    42
labels        service=web
opened        2026-01-01T01:30:00.000Z
opened index  12`},
		{"session show 0x0200000000020000", `
id          0x0200000000020000
ended       expired
at          2026-01-01T01:00:00.000Z
last touch  10.1s before
owner       2
term        3
index       77
credited    250ms`},
		{"session touch --token-file " + token, `
id          0x0100000000010007
safe until  -`},
		{"session upgrade --token-file " + local, `
id          0x0100000000010007
token       0x0100000000010007.ab0000000000000000000000000000cd.43
timeout     10s
owner       1
scope       global
safe until  -`},
		{"session close --token-file " + token, "0x0100000000010007 closed"},
		{"cluster members", `
NODE  VOTER  LEADER  CLIENT    RAFT      PEER
1     yes    no      n1:7400   n1:7401   n1:7402
12    yes    yes     n12:7400  n12:7401  n12:7402`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := clitest.Execute(t, "", strings.Fields(tt.args)...)
			if code != cli.ExitDone || stderr != "" {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			clitest.WantOutput(t, stdout, tt.want)
		})
	}
	if got := n.Calls(); !slices.Contains(got, "list 2") {
		t.Errorf("got %q, want all pages listed", got)
	}
}

func TestJSON(t *testing.T) {
	fakenode.Start(t)
	token, local := fakenode.TokenFile(t, fakenode.TokenText), fakenode.TokenFile(t, fakenode.TokenText+".local")
	tests := []struct{ args, want string }{
		{
			"id decode 0x0100000000010007",
			`[{"id":"0x0100000000010007","node":1,"ms":1,"time":"2026-01-01T00:00:00.001Z","counter":7}]`,
		},
		{"session ls", `[
			{"id":"0x0100000000010007","timeout_ms":10000,"owner":1,"attachment":42,"labels":{"service":"web"},"opened_index":12,
			 "opened_at":"2026-01-01T01:30:00Z","remaining_ms":1000},
			{"id":"0x0100000000010008","timeout_ms":10000,"owner":1,"attachment":42,"opened_index":12,
			 "opened_at":"2026-01-01T01:30:00Z"}]`},
		{
			"session show 0x0200000000020000",
			`{"certificate":{"id":"0x0200000000020000","cause":"expired","last_touch_age_ms":10100,"owner":2,
			"term":3,"index":77,"credited_ms":250,"ended_at":"2026-01-01T01:00:00Z","timeout_ms":0,"late_ms":0}}`,
		},
		{"session close --token-file " + token, `{"id":"0x0100000000010007","closed":true}`},
		{"session touch --token-file " + token, `{"id":"0x0100000000010007"}`},
		{"session upgrade --token-file " + local, `{"id":"0x0100000000010007","owner":1,"timeout_ms":10000,
			"token":"0x0100000000010007.ab0000000000000000000000000000cd.43"}`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := clitest.Execute(t, "", append(strings.Fields(tt.args), "-o", "json")...)
			if code != cli.ExitDone {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			clitest.WantOutput(t, clitest.Canonical(t, stdout), clitest.Canonical(t, tt.want))
		})
	}
}

func TestExitCodes(t *testing.T) {
	n := fakenode.Start(t)
	token, local := fakenode.TokenFile(t, fakenode.TokenText), fakenode.TokenFile(t, fakenode.TokenText+".local")
	closed := fakenode.ClosedPort(t)
	tests := []struct {
		args   string
		refuse error
		want   int
		says   string
	}{
		{"", nil, cli.ExitDone, ""},
		{"--help", nil, cli.ExitDone, ""},
		{"foobar", nil, cli.ExitUsage, `holdfast: unknown command "foobar" for "holdfast"` + "\n"},
		{
			"sesion ls --label a", nil, cli.ExitUsage,
			`holdfast: unknown command "sesion" for "holdfast": did you mean "holdfast session" or "holdfast version"?` + "\n",
		},
		{
			"cluster stats --endpoints a:1", nil, cli.ExitUsage,
			`holdfast: unknown command "stats" for "holdfast cluster": did you mean "holdfast cluster status"?` + "\n",
		},
		{"cluster mmbers --bogus", nil, cli.ExitUsage, `did you mean "holdfast cluster members"?`},
		{"session", nil, cli.ExitUsage, "needs a command"},
		{"session foo", nil, cli.ExitUsage, `unknown command "foo"`},
		{"id allocate --count 0", nil, cli.ExitUsage, "1 to 65536"},
		{"session ls --foo", nil, cli.ExitUsage, "--foo"},
		{"session ls extra", nil, cli.ExitUsage, `"holdfast session ls" accepts no arguments, not "extra"`},
		{"session ls -o yaml", nil, cli.ExitUsage, "table or json"},
		{"session ls --call-timeout 0s", nil, cli.ExitUsage, "positive"},
		{"session ls --owner 255", nil, cli.ExitUsage, "0 to 254"},
		{"session ls --endpoints localhost", nil, cli.ExitUsage, "host:port"},
		{"session show", nil, cli.ExitUsage, `"holdfast session show" accepts one ID, not 0 arguments`},
		{"session show 0x1 0x2", nil, cli.ExitUsage, `"holdfast session show" accepts one ID, not 2 arguments`},
		{"id decode", nil, cli.ExitUsage, `"holdfast id decode" accepts one ID or more, not 0 arguments`},
		{
			"completion nope", nil, cli.ExitUsage,
			`"holdfast completion" takes the name of a shell, bash, fish, powershell, zsh: not "nope"`,
		},
		{"completion", nil, cli.ExitUsage, "none was given"},
		{"session touch --token-file /", nil, cli.ExitUsage, "--token-file: read /: is a directory"},
		{
			"session touch --token-file " + local, session.ErrMoved, cli.ExitFailed,
			"the session is local to node 1, and only that node can touch it",
		},
		{"session show zz", nil, cli.ExitUsage, "hexadecimal"},
		{"session open --timeout -1s", nil, cli.ExitUsage, "positive"},
		{"session open --label =x", nil, cli.ExitUsage, "label"},
		{"session open --label foo", nil, cli.ExitUsage, `--label "foo": want KEY=VALUE, or KEY= for an empty value`},
		{"session open --label a=1 --label a=2", nil, cli.ExitUsage, "twice"},
		{"session ls --scope all", nil, cli.ExitUsage, "any, global or local"},
		{"session keep-alive --token-file a --local", nil, cli.ExitUsage, "local"},
		{"session upgrade", nil, cli.ExitUsage, "--token-file"},
		{"session upgrade --token-file " + token, nil, cli.ExitUnreachable, "resumed"},
		{
			"session open --local", &session.FieldError{
				Field: "local", Limit: "false while the cluster's setting local_sessions is off",
			}, cli.ExitFailed,
			"local must be false while the cluster's setting local_sessions is off",
		},
		{"session touch", nil, cli.ExitUsage, "--token-file"},
		{"session touch --token-file " + fakenode.TokenFile(t, "x"), nil, cli.ExitUsage, "ID.CREDENTIAL.ATTACHMENT"},
		{"session close --token-file /does/not/exist", nil, cli.ExitUsage, "no such file"},
		{"session keep-alive --token-file a --label x=y", nil, cli.ExitUsage, "label"},
		{"ping --count 0", nil, cli.ExitUsage, "1 to 1000000"},
		{"ping --count 1000001", nil, cli.ExitUsage, "1 to 1000000"},
		{"ping --interval -1s", nil, cli.ExitUsage, "--interval"},
		{"ping --timeout 0s", nil, cli.ExitUsage, "--timeout"},
		{"ping --endpoints localhost", nil, cli.ExitUsage, "host:port"},
		{"ping extra", nil, cli.ExitUsage, "extra"},
		{"ping --call-timeout 200ms --endpoints " + closed, nil, cli.ExitUnreachable, closed},
		{"ping --call-timeout LIMIT", session.ErrNoLeader, cli.ExitFailed, "no leader"},
		{"id encode", nil, cli.ExitUsage, "--node"},
		{"id encode --node 1 --time 2025-12-31T23:59:59Z", nil, cli.ExitUsage, "2026"},
		{"id encode --node 1 --ms 1099511627776", nil, cli.ExitUsage, "1099511627775"},
		{"session show 0x5", nil, cli.ExitFailed, "unknown, closed or expired"},
		{"session close --token-file " + token, session.ErrMoved, cli.ExitFailed, "session keep-alive --token-file FILE"},
		{"session touch --token-file " + token, session.ErrBadCredential, cli.ExitFailed, "credential"},
		{"session touch --token-file " + token, session.ErrLagging, cli.ExitFailed, "newest token as it was printed"},
		{"session open --call-timeout LIMIT", session.ErrNoLeader, cli.ExitFailed, "no leader"},
		{"session ls --call-timeout LIMIT", session.ErrNoLeader, cli.ExitFailed, "no leader"},
		{"session open", &session.LimitError{Name: "sessions", Limit: "3"}, cli.ExitFailed, "over the limit"},
		{"session open --call-timeout 200ms --endpoints " + closed, nil, cli.ExitUnreachable, "Is the cluster running"},
		{"session keep-alive --call-timeout 200ms --endpoints " + closed, nil, cli.ExitUnreachable, "Is the cluster running"},
		{"session ls --call-timeout 200ms --endpoints " + closed, nil, cli.ExitUnreachable, closed},
		{"session watch --call-timeout 200ms --endpoints " + closed, nil, cli.ExitUnreachable, closed},
		{"watch /a --call-timeout 200ms --endpoints " + closed, nil, cli.ExitUnreachable, closed},
		{
			"session touch --call-timeout 200ms --token-file " + token + " --endpoints " + closed, nil, cli.ExitUnreachable,
			closed,
		},
		{"cluster status --endpoints " + closed, nil, cli.ExitUnreachable, closed},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			n.RefuseWith(tt.refuse)
			clitest.InTime(t, func(limit string) string {
				code, _, stderr := clitest.Execute(t, "", strings.Fields(strings.ReplaceAll(tt.args, "LIMIT", limit))...)
				if code != tt.want || !strings.Contains(stderr, tt.says) {
					return fmt.Sprintf("exit code %d, want %d; stderr %q, want %q in it", code, tt.want, stderr, tt.says)
				}
				if strings.Contains(stderr, "ab00000000") {
					t.Error("the output has the credential")
				}
				return ""
			})
		})
	}
}

func TestHelpMentionsImportantFacts(t *testing.T) {
	for args, want := range map[string][]string{
		"--help": {
			"Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no node", "HOLDFAST_ENDPOINTS",
			"completion",
		},
		"session --help":            {"open", "keep-alive", "touch", "close", "ls", "show"},
		"session open --help":       {"A token is a secret", "--timeout", "expires"},
		"session keep-alive --help": {"A token is a secret", "--no-close", "Ctrl-C", "--token-file"},
		"session touch --help":      {"A token is a secret", "standard input"},
		"id new --help":             {"unique", "--datacenter", "--policy", "refuses"},
		"session close --help":      {"A token is a secret"},
		"completion bash":           {"bash completion"},
		"lock --help":               {"HOLDFAST_TOKEN", "/locks/NAME", "--on-lost", "SIGKILL", "for ever", "a sixth"},
		"lock break --help":         {"fencing token", "--yes"},
		"elect --help":              {"HOLDFAST_TOKEN", "/elections/NAME", "--value"},
		"register --help":           {"HOLDFAST_MEMBER", "/services/SERVICE", "--check", "runs on"},
	} {
		code, stdout, stderr := clitest.Execute(t, "", strings.Fields(args)...)
		for _, w := range want {
			if code != cli.ExitDone || !strings.Contains(stdout, w) {
				t.Errorf("%s: exit code %d, %s, want %q in:\n%s", args, code, stderr, w, stdout)
			}
		}
	}
}

// Every help fits a terminal of 100 columns.
func TestHelpIsNarrow(t *testing.T) {
	commands := []string{"help", "completion bash", "completion fish", "completion powershell", "completion zsh"}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		commands = append(commands, strings.TrimPrefix(cmd.CommandPath(), "holdfast"))
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root(cli.NewEnv(nil, io.Discard, io.Discard)))
	for _, command := range commands {
		code, stdout, stderr := clitest.Execute(t, "", append(strings.Fields(command), "--help")...)
		if code != cli.ExitDone || stdout == "" || stderr != "" {
			t.Errorf("%s: exit code %d, %s", command, code, stderr)
		}
		for line := range strings.Lines(stdout) {
			if wide := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); wide > arg.HelpColumns {
				t.Errorf("%s: a line has %d characters: %s", command, wide, line)
			}
		}
	}
}
