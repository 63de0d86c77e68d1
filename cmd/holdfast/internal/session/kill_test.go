package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/session"
	"holdfast/transport/wire"
)

// An unset variable makes no filter that matches everything: nodes treat an empty value as any value.
func TestAnEmptyValueSelectsNoSessions(t *testing.T) {
	o := fakenode.StartOperator(t)
	o.Alone = true
	for _, args := range [][]string{
		{"session", "kill", "--label", "service=", "--yes"},
		{"session", "kill", "--label", "zone=a", "--label", "service=", "--yes"},
		{"session", "kill", "--label", "service=", "--dry-run"},
		{"session", "ls", "--label", "service="},
		{"session", "deaths", "--label", "service="},
	} {
		code, stdout, stderr := clitest.Execute(t, "", args...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, `write --label "service" for any value`) {
			t.Errorf("%q: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	if len(o.Kills) != 0 || len(o.Calls()) != 0 {
		t.Errorf("nodes were asked: %v, %v", o.Kills, o.Calls())
	}
	if code, stdout, stderr := clitest.Execute(t, "", "session", "kill", "--label", "service",
		"--dry-run"); code != cli.ExitDone ||
		!strings.Contains(stdout, fakenode.LivingID.String()) {
		t.Errorf("the key alone: exit code %d, %s%s", code, stdout, stderr)
	}
}

// killed runs a command that ends sessions, and returns its JSON.
func killed(ctx context.Context, t *testing.T, args ...string) (code int, views []killedView, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	args = append([]string{"session", "kill", "--yes", "-o", "json"}, args...)
	code = clitest.Run(ctx, args, strings.NewReader(""), &out, &errs)
	if err := json.Unmarshal([]byte(out.String()), &views); err != nil {
		t.Fatalf("%v in %s%s", err, out.String(), errs.String())
	}
	return code, views, errs.String()
}

// A node may end sessions without answering. Such sessions are shown neither as refused, nor is the cluster shown as
// unreachable.
func TestAKillWithoutAnAnswerMayBeDone(t *testing.T) {
	ids := func(count int) (args []string) {
		for i := range count {
			args = append(args, (fakenode.LivingID + session.ID(i)).String())
		}
		return args
	}
	one, many := ids(1), ids(session.MaxKill+1)
	lost := func(func()) error { return status.Error(codes.Unavailable, "lost") }
	for name, tt := range map[string]struct {
		args []string
		// got answers a request. interrupt is the user's Ctrl-C.
		got     func(interrupt func()) error
		first   string
		unknown int
	}{
		"the connection is lost": {one, lost, outcomeUnknown, 1},
		"the user does not wait for the answer": {
			one, func(interrupt func()) error {
				interrupt()
				return status.Error(codes.Unavailable, "lost")
			}, outcomeUnknown, 1,
		},
		"a batch without an answer, and one that was not sent": {many, lost, outcomeUnknown, session.MaxKill},
		"a refusal": {
			one, func(func()) error { return wire.Status(session.ErrForbidden) }, outcomeFailed, 0,
		},
		"an outcome that the node does not know": {[]string{"0x06"}, nil, outcomeUnknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := fakenode.StartOperator(t)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			if tt.got != nil {
				o.OnKill = func() error { return tt.got(interrupt) }
			}
			code, views, stderr := killed(ctx, t, tt.args...)
			unknown := 0
			for _, v := range views {
				if v.Outcome == outcomeUnknown {
					unknown++
				}
			}
			if code != cli.ExitFailed || len(views) != len(tt.args) || views[0].Outcome != tt.first || unknown != tt.unknown {
				t.Errorf("exit code %d, %d views, %d unknown, the first %+v: %s", code, len(views), unknown, views[0], stderr)
			}
			if tt.unknown > 0 && (!strings.Contains(stderr, fmt.Sprintf("%d of %d sessions may live on or may have ended",
				tt.unknown, len(views))) || strings.Contains(stderr, "Is the cluster running")) {
				t.Errorf("stderr %s", stderr)
			}
			if last := views[len(views)-1]; len(views) > session.MaxKill && last.Error != "not tried" {
				t.Errorf("the session of the second batch: %+v", last)
			}
		})
	}
	t.Run("no node", func(t *testing.T) {
		code, views, stderr := killed(t.Context(), t, fakenode.LivingID.String(), "--endpoints", fakenode.ClosedPort(t),
			"--call-timeout", "300ms")
		if code != cli.ExitUnreachable || len(views) != 1 || views[0].Outcome != outcomeFailed ||
			views[0].Error != "not tried" {
			t.Errorf("exit code %d, %+v: %s", code, views, stderr)
		}
	})
}

// The outcome of an earlier request stays unknown when the next request is refused.
func TestARefusalDoesNotDecideAnEarlierKill(t *testing.T) {
	v := killedView{ID: view.ID(fakenode.LivingID), Outcome: outcomeFailed}
	for i, tt := range []struct {
		err  error
		want string
	}{
		{session.ErrClosing, outcomeFailed},
		{fmt.Errorf("no answer: %w", client.ErrUnreachable), outcomeUnknown},
		{session.ErrClosing, outcomeUnknown},
		{&session.ExpiredError{ID: fakenode.LivingID}, outcomeEnded},
	} {
		if v.record(session.Killed{Err: tt.err}); v.Outcome != tt.want {
			t.Errorf("%d: %v: %+v, want %s", i, tt.err, v, tt.want)
		}
	}
}

// Local sessions of all nodes are found, whichever node answers.
func TestSessionKillFindsLocalSessionsAtTheirNodes(t *testing.T) {
	nodes := clitest.StartNodes(t, 3, clitest.LocalSessions)
	t.Setenv(cli.EndpointsVariable, nodes[0].Address)
	open := func(c *client.Client, local bool, service string) *client.Session {
		t.Helper()
		s, err := c.Open(t.Context(), client.SessionOptions{
			Timeout: 30 * time.Second, Local: local, Labels: map[string]string{"service": service},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var web []*client.Session
	for _, n := range nodes {
		web = append(web, open(clitest.ClientOf(t, n), true, "web"))
	}
	web = append(web, open(clitest.ClientOf(t, nodes[1]), false, "web"))
	other := open(clitest.ClientOf(t, nodes[0]), true, "other")
	for args, want := range map[string][]*client.Session{
		"--label service=web":                              web,
		"--label service=web --scope local":                web[:3],
		"--label service=web --scope global":               web[3:],
		"--owner 3":                                        web[2:3],
		"--owner 2 --scope local":                          web[1:2],
		"--label service=other --label service2 --owner 1": nil,
	} {
		code, stdout, stderr := clitest.Execute(t, "",
			append([]string{"session", "kill", "--dry-run", "--call-timeout", "1m"}, strings.Fields(args)...)...)
		if code != cli.ExitDone || !strings.Contains(stdout, fmt.Sprintf("%d sessions would be killed", len(want))) {
			t.Errorf("%s: exit code %d, want %d sessions: %s%s", args, code, len(want), stdout, stderr)
		}
		for _, s := range want {
			clitest.Contains(t, stdout, s.ID().String())
		}
	}
	code, stdout, stderr := clitest.Execute(t, "", "session", "kill", "--label", "service=web", "--yes",
		"--call-timeout", "1m")
	if code != cli.ExitDone || !strings.Contains(stdout, "4 of 4 sessions killed") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	for _, s := range web {
		<-s.Done()
		if gone, ok := errors.AsType[*session.ExpiredError](s.Err()); !ok || gone.Certificate == nil ||
			gone.Certificate.Cause != session.CauseKilled {
			t.Errorf("session %v: %v", s.ID(), s.Err())
		}
	}
	if err := other.Err(); err != nil {
		t.Errorf("a session with another label: %v", err)
	}
}

// A silent member is named, and the command reports that it is incomplete. The sessions that were found are ended.
func TestSessionKillNamesASilentMember(t *testing.T) {
	o := fakenode.StartOperator(t)
	o.Alone, o.DeadMember = true, fakenode.ClosedPort(t)
	code, stdout, stderr := clitest.Execute(t, "", "session", "kill", "--label", "service=web", "--yes")
	if code != cli.ExitFailed || !strings.Contains(stdout, "2 of 2 sessions killed") ||
		!strings.Contains(stderr, "node 2 did not list its local sessions") ||
		!strings.Contains(stderr, "not all nodes answered") || strings.Contains(stderr, "Is the cluster running") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, _, stderr = clitest.Execute(t, "", "session", "kill", "--label", "service", "--scope", "global", "--dry-run")
	if code != cli.ExitDone || stderr != "" {
		t.Errorf("global sessions alone: exit code %d: %s", code, stderr)
	}
}
