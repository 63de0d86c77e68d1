package session

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/session/words"
)

func TestSessionWhy(t *testing.T) {
	o := fakenode.StartOperator(t)
	code, stdout, _ := clitest.Execute(t, "", "session", "explain", fakenode.LivingID.String())
	clitest.Contains(t, stdout, "is alive", "timeout is 10s", "Node 1 serves it", "leader of term 7", "2.1s old",
		"expires in 8s", "50ms later", "Only node 1 knows")
	o.AdminMu.Lock()
	o.Alone = true
	o.AdminMu.Unlock()
	_, stdout, _ = clitest.Execute(t, "", "session", "explain", fakenode.LivingID.String())
	clitest.Contains(t, stdout, "from 10.0.0.1:4000 since 2026-01-01", "protocol grpc", `name "worker", principals`,
		"ip:10.0.0.1, x509:CN=w", "1 session and 2 watches")
	_, stdout, _ = clitest.Execute(t, "", "session", "explain", fakenode.LivingID.String(), "-o", "json")
	var alive explainView
	if err := json.Unmarshal([]byte(stdout), &alive); err != nil || alive.Client == nil || alive.Client.Watches != 2 {
		t.Errorf("JSON %s, %v", stdout, err)
	}
	if code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	_, stdout, _ = clitest.Execute(t, "", "session", "explain", fakenode.EndedID.String())
	clitest.Contains(t, stdout, "it expired", "12.3s earlier", "through node 2", "last contact 11s earlier",
		"due 2s later", "1.5s did not count", "251ms after", "entry 99", "2 ephemeral", "will was carried out", "service=web", "timeout of 10s",
		"the log of node 2 has the client's address and name")
	_, stdout, _ = clitest.Execute(t, "", "session", "explain", fakenode.EndedID.String(), "-o", "json")
	var v explainView
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || v.Certificate == nil || v.Certificate.LateMS == nil ||
		*v.Certificate.LateMS != 251 || v.Certificate.Will != "carried out" || len(v.Why) == 0 {
		t.Errorf("JSON %s, %v", stdout, err)
	}
	if code, _, stderr := clitest.Execute(t, "", "session", "explain", "0x01"); code != cli.ExitFailed || stderr == "" {
		t.Errorf("an unknown session: %d, %q", code, stderr)
	}
	if code, _, _ := clitest.Execute(t, "", "session", "explain", "x"); code != cli.ExitUsage {
		t.Errorf("no id: %d", code)
	}
}

// The explanation invents nothing: it leaves out facts that the certificate lacks.
func TestSessionWhyInventsNothing(t *testing.T) {
	old := fakenode.Death()
	old.Story, old.Left, old.Credited, old.LastTouchAge = session.Story{Spec: session.Spec{Timeout: time.Second}},
		session.Left{}, 0,
		-time.Millisecond
	text := strings.Join(words.Ended(&old), "\n")
	clitest.Contains(t, text, "received no touch in its term")
	for _, never := range []string{"contact", "later", "ephemeral", "will", "did not count"} {
		if strings.Contains(text, never) {
			t.Errorf("it tells of %q:\n%s", never, text)
		}
	}
}

func TestSessionDeaths(t *testing.T) {
	o := fakenode.StartOperator(t)
	code, stdout, stderr := clitest.Execute(t, "", "session", "deaths", "--since", "1h", "--until", "30m", "--cause",
		"killed", "--label", "service")
	clitest.Contains(t, stdout, "expired", "killed", fakenode.EndedID.String(), "service=web", `\x1b`)
	if code != cli.ExitDone || !strings.Contains(stderr, "no longer kept") || strings.Contains(stdout, "\x1b[31m") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	o.AdminMu.Lock()
	if f := o.DeathFilter; f.GetCause() != holdfastv1.Cause_CAUSE_KILLED || len(f.GetLabels()) != 1 ||
		time.Since(f.GetSince().AsTime()).Round(time.Minute) != time.Hour ||
		time.Since(f.GetUntil().AsTime()).Round(time.Minute) != 30*time.Minute {
		t.Errorf("the filter is %v", f)
	}
	o.AdminMu.Unlock()
	_, stdout, _ = clitest.Execute(t, "", "session", "deaths", "--limit", "1", "-o", "json")
	if strings.Count(stdout, `"id"`) != 1 {
		t.Errorf("limited to 1: %s", stdout)
	}
	for _, wrong := range [][]string{
		{"--cause", "x"},
		{"--owner", "255"},
		{"--since", "-1s"},
		{"--since", "1h", "--until", "1h"},
	} {
		if code, _, _ := clitest.Execute(t, "", append([]string{"session", "deaths"}, wrong...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit code %d", wrong, code)
		}
	}
}

func TestSessionKill(t *testing.T) {
	o := fakenode.StartOperator(t)
	o.Alone = true
	count := func() int {
		o.AdminMu.Lock()
		defer o.AdminMu.Unlock()
		return len(o.Kills)
	}
	for name, args := range map[string][]string{
		"dry run":   {fakenode.LivingID.String(), "--dry-run"},
		"by label":  {"--label", "service=web", "--dry-run"},
		"as JSON":   {fakenode.LivingID.String(), "--dry-run", "-o", "json"},
		"by a node": {"--owner", "1", "--dry-run"},
	} {
		code, stdout, _ := clitest.Execute(t, "", append([]string{"session", "kill"}, args...)...)
		if code != cli.ExitDone || !strings.Contains(stdout, fakenode.LivingID.String()) || count() != 0 {
			t.Errorf("%s: exit code %d, %d kills, %q", name, code, count(), stdout)
		}
	}
	for _, answer := range []string{"", "y\n", "no\n"} {
		if code, _, stderr := clitest.Execute(t, answer, "session", "kill",
			fakenode.LivingID.String()); code != cli.ExitFailed || count() != 0 ||
			!strings.Contains(stderr, "not confirmed") {
			t.Errorf("answered %q: exit code %d, %d kills, %q", answer, code, count(), stderr)
		}
	}
	code, stdout, stderr := clitest.Execute(t, "yes\n", "session", "kill", fakenode.LivingID.String(),
		fakenode.EndedID.String(), "--reason", "stuck")
	clitest.Contains(t, stdout, "killed", "already expired", "1 of 2 sessions killed")
	if code != cli.ExitDone || !strings.Contains(stderr, "Kill 2 sessions?") || count() != 1 {
		t.Errorf("exit code %d, %q, %d kills", code, stderr, count())
	}
	o.AdminMu.Lock()
	if got := o.Kills[0]; got.GetWhy() != "stuck" ||
		!slices.Equal(got.GetIds(), []uint64{uint64(fakenode.LivingID), uint64(fakenode.EndedID)}) {
		t.Errorf("asked for %v", got)
	}
	o.AdminMu.Unlock()
	// Sessions that cannot be ended now are tried again, a bounded number of times; the others are ended.
	code, stdout, stderr = clitest.Execute(t, "", "session", "kill", "0x05", fakenode.LivingID.String(), "--yes")
	if code != cli.ExitFailed || count() != 1+killTries || !strings.Contains(stderr, "1 of 2 sessions live on") {
		t.Errorf("a session that is being closed: %d, %d kills, %q, %q", code, count(), stdout, stderr)
	}
	for _, wrong := range [][]string{
		{},
		{"x"},
		{fakenode.LivingID.String(), "--label", "a=b"},
		{"--label", "a=b", "--scope", "x"},
		{fakenode.LivingID.String(), "--scope", "x"},
		{fakenode.LivingID.String(), "--scope", "local"},
		{"--principal-of", "x"},
		{"--principal", "worker", "--label", "a=b"},
		{fakenode.LivingID.String(), "--principal", "worker"},
		{"--principal", "worker", "--scope", "local"},
		{"--principal", "worker", "--owner", "1"},
	} {
		if code, _, _ := clitest.Execute(t, "", append([]string{"session", "kill"}, wrong...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit code %d", wrong, code)
		}
	}
}

// Many sessions are ended in bounded batches, and the command says how far it has come.
func TestSessionKillInBatches(t *testing.T) {
	o := fakenode.StartOperator(t)
	args := []string{"session", "kill", "--yes"}
	for i := range session.ID(session.MaxKill + 1) {
		args = append(args, (fakenode.LivingID + i + 1).String())
	}
	code, stdout, stderr := clitest.Execute(t, "", args...)
	if code != cli.ExitDone || !strings.Contains(stdout, "257 of 257 sessions killed") ||
		!strings.Contains(stderr, "256 of 257 sessions done") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if len(o.Kills) != 2 || len(o.Kills[0].GetIds()) != session.MaxKill {
		t.Errorf("%d requests", len(o.Kills))
	}
}

// The sessions of a caller are listed, and ended after the answer yes. Members that do not answer are named, and
// sessions of a caller who only says who it is stay.
func TestSessionKillByPrincipal(t *testing.T) {
	o := fakenode.StartOperator(t)
	o.Alone = true
	of := func(stdin, principal string, more ...string) (code int, stdout, stderr string) {
		t.Helper()
		return clitest.Execute(t, stdin, append([]string{"session", "kill", "--principal", principal}, more...)...)
	}
	code, stdout, _ := of("", "worker", "--dry-run")
	clitest.Contains(t, stdout, fakenode.LivingID.String(), "1 sessions would be killed")
	if code != cli.ExitDone || len(o.Kills) != 0 {
		t.Errorf("dry run: exit code %d, %d kills", code, len(o.Kills))
	}
	if refused, _, stderr := of("no\n", "worker"); refused != cli.ExitFailed ||
		!strings.Contains(stderr, "Kill 1 sessions?") ||
		len(o.Kills) != 0 {
		t.Errorf("not confirmed: exit code %d, %d kills, %s", refused, len(o.Kills), stderr)
	}
	for _, none := range []string{"work", "\x1b[31mred", "ip:10.0.0"} {
		done, said, stderr := of("", none, "--yes")
		if done != cli.ExitDone || !strings.Contains(said, "0 sessions would be killed") || len(o.Kills) != 0 {
			t.Errorf("%q: exit code %d, %s, %s", none, done, said, stderr)
		}
		if claims := none == "\x1b[31mred"; strings.Contains(stderr, "without proof") != claims {
			t.Errorf("%q: %s", none, stderr)
		}
	}
	code, stdout, _ = of("yes\n", "x509:CN=w")
	if code != cli.ExitDone || !strings.Contains(stdout, "1 of 1 sessions killed") || len(o.Kills) != 1 {
		t.Errorf("exit code %d, %d kills, %s", code, len(o.Kills), stdout)
	}
	o.AdminMu.Lock()
	o.Alone = false // now the members are elsewhere
	o.AdminMu.Unlock()
	code, _, stderr := of("", "worker", "--yes", "--call-timeout", "300ms")
	if code == cli.ExitDone ||
		!strings.Contains(stderr, "not all nodes answered") && !strings.Contains(stderr, "deadline") {
		t.Errorf("members that do not answer: exit code %d, %s", code, stderr)
	}
}
