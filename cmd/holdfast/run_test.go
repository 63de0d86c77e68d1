package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"holdfast/cmd/internal/arg"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// execute runs a command line.
func execute(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// inTime runs a check with limits for --call-timeout or --wait that grow, until the check complains of nothing. A command
// that is refused lasts as long as its limit, and a busy machine takes long to answer at all.
func inTime(t *testing.T, check func(limit string) (complaint string)) {
	t.Helper()
	complaint := ""
	for _, limit := range []string{"1s", "5s", "30s"} {
		if complaint = check(limit); complaint == "" {
			return
		}
	}
	t.Error(complaint)
}

func wantOutput(t *testing.T, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

const tokenText = "0x0100000000010007.ab0000000000000000000000000000cd.42"

func TestTables(t *testing.T) {
	n := startNode(t)
	token, local := tokenFile(t, tokenText), tokenFile(t, tokenText+".local")
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
			code, stdout, stderr := execute(t, "", strings.Fields(tt.args)...)
			if code != exitDone || stderr != "" {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			wantOutput(t, stdout, tt.want)
		})
	}
	if got := n.calls(); !slices.Contains(got, "list 2") {
		t.Errorf("got %q, want all pages listed", got)
	}
}

func TestJSON(t *testing.T) {
	startNode(t)
	token, local := tokenFile(t, tokenText), tokenFile(t, tokenText+".local")
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
			code, stdout, stderr := execute(t, "", append(strings.Fields(tt.args), "-o", "json")...)
			if code != exitDone {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			wantOutput(t, canonical(t, stdout), canonical(t, tt.want))
		})
	}
}

func canonical(t *testing.T, s string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestClusterStatus(t *testing.T) {
	n := startNode(t)
	code, stdout, _ := execute(t, "", "cluster", "status")
	if code != exitDone {
		t.Errorf("exit code %d, want %d", code, exitDone)
	}
	wide := len(n.address)
	wantOutput(t, strings.Replace(stdout, n.address, strings.Repeat("x", wide), 1),
		"ENDPOINT"+strings.Repeat(" ", wide-8)+"  NODE  ROLE      MODE       LEADER  APPLIED  READY\n"+
			strings.Repeat("x", wide)+"  1     follower  read-only  2       98       no\n\n"+
			"NODE  TERM  COMMIT  SESSIONS  ATTACHED  STATE    TREE      WATCHES\n"+
			"1     3     99      5/100     2         1.5K/2G  12000/3M  41\n\n"+
			"version v1, feature level 1\nnode 1 is not ready: no good round")
	closed := closedPort(t)
	code, stdout, _ = execute(t, "", "cluster", "status", "--endpoints", n.address+","+closed, "-o", "json")
	var views []statusView
	if err := json.Unmarshal([]byte(stdout), &views); err != nil || len(views) != 2 {
		t.Fatalf("%v in %s", err, stdout)
	}
	if code != exitFailed || views[0].Node != 1 || views[0].ClusterID != "holdfast" || views[0].FeatureLevel != 1 ||
		views[0].TreeEntries != 12_000 || views[0].TreeEphemerals != 7 || views[0].TreeBytes != 3<<20 ||
		views[0].Watches != 41 || views[1].Endpoint != closed ||
		views[1].Error == "" {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

func TestFiltersReachTheCluster(t *testing.T) {
	n := startNode(t)
	code, _, stderr := execute(t, "", "session", "ls", "--owner", "3", "--label", "service=web", "--label", "zone",
		"--min-age", "1s", "--max-age", "2s", "--min-remaining", "3s", "--max-remaining", "4s", "--scope", "local")
	f := n.filter
	if code != exitDone || f.GetOwner() != 3 || f.GetLabels()["service"] != "web" || len(f.GetLabels()) != 2 ||
		f.GetMinAge().AsDuration() != time.Second || f.GetMaxAge().AsDuration() != 2*time.Second ||
		f.GetMinRemaining().AsDuration() != 3*time.Second || f.GetMaxRemaining().AsDuration() != 4*time.Second ||
		f.GetScope() != holdfastv1.Scope_SCOPE_LOCAL {
		t.Errorf("exit code %d, %s, filter %v", code, stderr, f)
	}
}

func TestExitCodes(t *testing.T) {
	n := startNode(t)
	token, local := tokenFile(t, tokenText), tokenFile(t, tokenText+".local")
	closed := closedPort(t)
	tests := []struct {
		args   string
		refuse error
		want   int
		says   string
	}{
		{"", nil, exitDone, ""},
		{"--help", nil, exitDone, ""},
		{"foobar", nil, exitUsage, `holdfast: unknown command "foobar" for "holdfast"` + "\n"},
		{
			"sesion ls --label a", nil, exitUsage,
			`holdfast: unknown command "sesion" for "holdfast": did you mean "holdfast session" or "holdfast version"?` + "\n",
		},
		{
			"cluster stats --endpoints a:1", nil, exitUsage,
			`holdfast: unknown command "stats" for "holdfast cluster": did you mean "holdfast cluster status"?` + "\n",
		},
		{"cluster mmbers --bogus", nil, exitUsage, `did you mean "holdfast cluster members"?`},
		{"session", nil, exitUsage, "needs a command"},
		{"session foo", nil, exitUsage, `unknown command "foo"`},
		{"id allocate --count 0", nil, exitUsage, "1 to 65536"},
		{"session ls --foo", nil, exitUsage, "--foo"},
		{"session ls extra", nil, exitUsage, `"holdfast session ls" takes no arguments, not "extra"`},
		{"session ls -o yaml", nil, exitUsage, "table or json"},
		{"session ls --call-timeout 0s", nil, exitUsage, "positive"},
		{"session ls --owner 255", nil, exitUsage, "0 to 254"},
		{"session ls --endpoints localhost", nil, exitUsage, "host:port"},
		{"session show", nil, exitUsage, `"holdfast session show" takes one ID, not 0 arguments`},
		{"session show 0x1 0x2", nil, exitUsage, `"holdfast session show" takes one ID, not 2 arguments`},
		{"id decode", nil, exitUsage, `"holdfast id decode" takes one ID or more, not 0 arguments`},
		{
			"completion nope", nil, exitUsage,
			`"holdfast completion" takes the name of a shell, bash, fish, powershell, zsh: not "nope"`,
		},
		{"completion", nil, exitUsage, "none was given"},
		{"session touch --token-file /", nil, exitUsage, "--token-file: read /: is a directory"},
		{
			"session touch --token-file " + local, session.ErrMoved, exitFailed,
			"a local session's, which node 1 alone can touch",
		},
		{"session show zz", nil, exitUsage, "hexadecimal"},
		{"session open --timeout -1s", nil, exitUsage, "positive"},
		{"session open --label =x", nil, exitUsage, "label"},
		{"session open --label foo", nil, exitUsage, `--label "foo": want KEY=VALUE, or KEY= for an empty value`},
		{"session open --label a=1 --label a=2", nil, exitUsage, "twice"},
		{"session ls --scope all", nil, exitUsage, "any, global or local"},
		{"session hold --token-file a --local", nil, exitUsage, "local"},
		{"session upgrade", nil, exitUsage, "--token-file"},
		{"session upgrade --token-file " + token, nil, exitUnreachable, "resumed"},
		{
			"session open --local", &session.FieldError{
				Field: "local", Limit: "false while the cluster's setting local_sessions is off",
			}, exitFailed,
			"local must be false while the cluster's setting local_sessions is off",
		},
		{"session touch", nil, exitUsage, "--token-file"},
		{"session touch --token-file " + tokenFile(t, "x"), nil, exitUsage, "ID.CREDENTIAL.ATTACHMENT"},
		{"session close --token-file /does/not/exist", nil, exitUsage, "no such file"},
		{"session hold --token-file a --label x=y", nil, exitUsage, "label"},
		{"ping --count 0", nil, exitUsage, "1 to 1000000"},
		{"ping --count 1000001", nil, exitUsage, "1 to 1000000"},
		{"ping --interval -1s", nil, exitUsage, "--interval"},
		{"ping --timeout 0s", nil, exitUsage, "--timeout"},
		{"ping --endpoints localhost", nil, exitUsage, "host:port"},
		{"ping extra", nil, exitUsage, "extra"},
		{"ping --call-timeout 200ms --endpoints " + closed, nil, exitUnreachable, closed},
		{"ping --call-timeout LIMIT", session.ErrNoLeader, exitFailed, "no leader"},
		{"id encode", nil, exitUsage, "--node"},
		{"id encode --node 1 --time 2025-12-31T23:59:59Z", nil, exitUsage, "2026"},
		{"id encode --node 1 --ms 1099511627776", nil, exitUsage, "1099511627775"},
		{"session show 0x5", nil, exitFailed, "unknown, closed or expired"},
		{"session close --token-file " + token, session.ErrMoved, exitFailed, "session hold --token-file FILE"},
		{"session touch --token-file " + token, session.ErrBadCredential, exitFailed, "credential"},
		{"session touch --token-file " + token, session.ErrLagging, exitFailed, "newest token as it was printed"},
		{"session open --call-timeout LIMIT", session.ErrNoLeader, exitFailed, "no leader"},
		{"session ls --call-timeout LIMIT", session.ErrNoLeader, exitFailed, "no leader"},
		{"session open", &session.LimitError{Name: "sessions", Limit: "3"}, exitFailed, "over the limit"},
		{"session open --call-timeout 200ms --endpoints " + closed, nil, exitUnreachable, "Is the cluster running"},
		{"session hold --call-timeout 200ms --endpoints " + closed, nil, exitUnreachable, "Is the cluster running"},
		{"session ls --call-timeout 200ms --endpoints " + closed, nil, exitUnreachable, closed},
		{"session watch --call-timeout 200ms --endpoints " + closed, nil, exitUnreachable, closed},
		{"watch /a --call-timeout 200ms --endpoints " + closed, nil, exitUnreachable, closed},
		{
			"session touch --call-timeout 200ms --token-file " + token + " --endpoints " + closed, nil, exitUnreachable,
			closed,
		},
		{"cluster status --endpoints " + closed, nil, exitUnreachable, closed},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			n.refuseWith(tt.refuse)
			inTime(t, func(limit string) string {
				code, _, stderr := execute(t, "", strings.Fields(strings.ReplaceAll(tt.args, "LIMIT", limit))...)
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

func TestHelpSaysWhatMatters(t *testing.T) {
	for args, want := range map[string][]string{
		"--help": {
			"Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no node", "HOLDFAST_ENDPOINTS",
			"completion",
		},
		"session --help":       {"open", "hold", "touch", "close", "ls", "show"},
		"session open --help":  {"A token is a secret", "--timeout", "expires"},
		"session hold --help":  {"A token is a secret", "--keep", "Ctrl-C", "--token-file"},
		"session touch --help": {"A token is a secret", "standard input"},
		"id new --help":        {"unique", "--datacenter", "--policy", "refuses"},
		"session close --help": {"A token is a secret"},
		"completion bash":      {"bash completion"},
		"lock --help":          {"HOLDFAST_TOKEN", "/locks/NAME", "--on-lost", "SIGKILL", "for ever", "a sixth"},
		"lock break --help":    {"fencing token", "--yes"},
		"elect --help":         {"HOLDFAST_TOKEN", "/elections/NAME", "--value"},
		"register --help":      {"HOLDFAST_MEMBER", "/services/SERVICE", "--check", "runs on"},
	} {
		code, stdout, stderr := execute(t, "", strings.Fields(args)...)
		for _, w := range want {
			if code != exitDone || !strings.Contains(stdout, w) {
				t.Errorf("%s: exit code %d, %s, want %q in:\n%s", args, code, stderr, w, stdout)
			}
		}
	}
}

// Every help fits a terminal of 100 columns.
func TestHelpIsNarrow(t *testing.T) {
	for _, command := range []string{
		"", "session", "session open", "session hold", "session touch", "session upgrade", "session close",
		"session ls", "session show", "get", "ls", "tree", "create", "set", "rm", "txn", "watch",
		"acl", "acl get", "acl set", "quota", "quota get", "quota set", "quota rm", "session watch",
		"cluster", "cluster status", "cluster members", "cluster add", "cluster promote", "cluster demote",
		"cluster remove", "cluster transfer", "snapshot", "snapshot save",
		"snapshot verify", "ping", "id", "id decode",
		"id encode", "id new", "id zxid", "id allocate", "completion", "completion bash", "completion fish",
		"completion powershell", "completion zsh", "help",
	} {
		code, stdout, stderr := execute(t, "", append(strings.Fields(command), "--help")...)
		if code != exitDone || stdout == "" || stderr != "" {
			t.Errorf("%s: exit code %d, %s", command, code, stderr)
		}
		for line := range strings.Lines(stdout) {
			if wide := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); wide > arg.HelpColumns {
				t.Errorf("%s: a line has %d characters: %s", command, wide, line)
			}
		}
	}
}

func TestOpenPrintsATokenThatOtherCommandsTake(t *testing.T) {
	n := startNode(t)
	code, stdout, stderr := execute(t, "", "session", "open", "--timeout", "7s", "--label", "service=web", "-o", "json")
	var v heldView
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != exitDone {
		t.Fatalf("exit code %d, %s, %v in %s", code, stderr, err, stdout)
	}
	if v.Token != tokenText || v.ID != idText(livingID) || v.TimeoutMS != 10_000 || v.Owner != 1 || v.SafeUntil == nil {
		t.Errorf("got %+v", v)
	}
	if code, _, stderr = execute(t, v.Token+"\n", "session", "close", "--token-file", "-"); code != exitDone {
		t.Errorf("token from standard input: exit code %d, %s", code, stderr)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(v.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr = execute(t, "", "session", "touch", "--token-file", file); code != exitDone {
		t.Errorf("token from a file: exit code %d, %s", code, stderr)
	}
	if got, want := n.calls(), []string{"open 7s web", "close", "touch"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, stdout, _ = execute(t, "", "session", "open"); !strings.Contains(stdout, "token       "+tokenText) {
		t.Errorf("table:\n%s", stdout)
	}
	if err := os.WriteFile(file, []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr = execute(t, "", "session", "touch", "--token-file", file); code != exitDone {
		t.Errorf("token from what session open printed: exit code %d, %s", code, stderr)
	}
}

func TestTokenText(t *testing.T) {
	if got, err := parseToken(" " + formatToken(livingToken()) + "\n"); err != nil || got != livingToken() {
		t.Errorf("got %v, %v, want %v", got, err, livingToken())
	}
	local := livingToken()
	local.Local = true
	if got, err := parseToken(tokenText + ".local"); err != nil || got != local ||
		formatToken(got) != tokenText+".local" {
		t.Errorf("got %v, %v, want %v", got, err, local)
	}
	for _, bad := range []string{
		tokenText + ".Local", tokenText + ".", tokenText + ".local.local", tokenText + "local", "", "a.b",
		"0x0.ab0000000000000000000000000000cd.42", "0x1.ab.42", "0x1.zz0000000000000000000000000000cd.42",
		"0x1.ab0000000000000000000000000000cd.0", "0x1.ab0000000000000000000000000000cd.-1", tokenText + ".1",
	} {
		if got, err := parseToken(bad); err == nil {
			t.Errorf("parseToken(%q): got %v", bad, got)
		}
	}
}
