package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// operated is a node that operators ask. It knows the sessions of a fakeNode.
type operated struct {
	holdfastv1.UnimplementedAdminServiceServer
	*fakeNode
	mu sync.Mutex
	// kills are the requests to end sessions. guarded by mu
	kills []*holdfastv1.KillSessionsRequest
	// filter is that of the newest list of deaths. guarded by mu
	filter *holdfastv1.DeathFilter
	// frozen is the newest freeze that was asked for, extended are the extensions. guarded by mu
	frozen   *holdfastv1.FreezeExpiryRequest
	extended []*holdfastv1.ExtendSessionRequest
	// alone says that the node's address is among those of the members. guarded by mu
	alone bool
	// dead is the address of another member beside it, where nobody listens; empty for none. guarded by mu
	dead string
	// got is called once a request to end sessions is there; nil calls nothing. Its error is the answer. guarded by mu
	got func() error
}

// ListMembers lists the node at its own address, or else members that are not there.
func (o *operated) ListMembers(ctx context.Context,
	r *holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.alone {
		return o.fakeNode.ListMembers(ctx, r)
	}
	members := []*holdfastv1.Member{{Id: o.number, ClientAddress: o.address}}
	if o.dead != "" {
		members = append(members, &holdfastv1.Member{Id: 2, ClientAddress: o.dead})
	}
	return &holdfastv1.ListMembersResponse{Members: members}, nil
}

func startOperated(t *testing.T) *operated {
	t.Helper()
	o := &operated{fakeNode: &fakeNode{number: 1}}
	o.address = startNodeWith(t, func(server *grpc.Server) {
		holdfastv1.RegisterSessionServiceServer(server, o.fakeNode)
		holdfastv1.RegisterClusterServiceServer(server, o)
		holdfastv1.RegisterAdminServiceServer(server, o)
	})
	t.Setenv(endpointsVariable, o.address)
	return o
}

func dead() session.Certificate {
	return session.Certificate{
		ID: endedID, Cause: session.CauseExpired, LastTouchAge: 12_300 * time.Millisecond, Owner: 2, Term: 7, Index: 99,
		Credited: 1500 * time.Millisecond, EndedAt: session.Epoch().Add(time.Hour),
		Left: session.Left{Instance: 3, Applied: 9, Ephemerals: 2, Will: tree.WillCarriedOut},
		Story: session.Story{
			Timeout: 10 * time.Second, OpenedAt: session.Epoch(), Labels: session.Labels{{Key: "service", Value: "web"}},
			Late: 251 * time.Millisecond, Credit: 2 * time.Second, Silent: 11 * time.Second,
		},
	}
}

func (o *operated) ExplainSession(_ context.Context,
	r *holdfastv1.ExplainSessionRequest,
) (*holdfastv1.ExplainSessionResponse, error) {
	switch session.ID(r.GetSessionId()) {
	case livingID:
		return &holdfastv1.ExplainSessionResponse{
			State: readWrite(), Session: wire.SessionProto(living()), Vigil: wire.VigilProto(&session.Vigil{
				Leader: 3, Term: 7, Led: time.Minute, Remaining: 8 * time.Second, LastTouchAge: 2100 * time.Millisecond,
				VouchedAge: time.Minute, Credit: 50 * time.Millisecond,
			}),
		}, nil
	case endedID:
		return &holdfastv1.ExplainSessionResponse{Certificate: wire.CertificateProto(dead()), State: readWrite()}, nil
	default:
		return nil, wire.Status(&session.ExpiredError{ID: session.ID(r.GetSessionId())})
	}
}

func (o *operated) ListDeaths(_ context.Context,
	r *holdfastv1.ListDeathsRequest,
) (*holdfastv1.ListDeathsResponse, error) {
	o.mu.Lock()
	o.filter = r.GetFilter()
	o.mu.Unlock()
	if r.GetPageToken() == "" {
		return &holdfastv1.ListDeathsResponse{
			Certificates: []*holdfastv1.Certificate{wire.CertificateProto(dead())}, NextPageToken: "more",
			State: readWrite(),
		}, nil
	}
	killed := dead()
	killed.ID, killed.Cause, killed.Story.By, killed.Story.Why = 7, session.CauseKilled, "ops", "a, \"b\"\x1b[31m"
	return &holdfastv1.ListDeathsResponse{
		Certificates: []*holdfastv1.Certificate{wire.CertificateProto(killed)}, Forgotten: true,
		State: readWrite(),
	}, nil
}

func (o *operated) KillSessions(_ context.Context,
	r *holdfastv1.KillSessionsRequest,
) (*holdfastv1.KillSessionsResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kills = append(o.kills, r)
	if o.got != nil {
		return nil, o.got()
	}
	answer := &holdfastv1.KillSessionsResponse{}
	for _, id := range r.GetIds() {
		one := &holdfastv1.KillResult{SessionId: id}
		switch {
		case session.ID(id) == endedID:
			one.Error = wire.Detail(&session.ExpiredError{ID: endedID, Certificate: new(dead())})
		case id == 5:
			one.Error = wire.Detail(session.ErrClosing)
		case id == 6:
			one.Error = wire.Detail(session.ErrOutcomeUnknown)
		default:
			one.Index = 100
		}
		answer.Results = append(answer.Results, one)
	}
	return answer, nil
}

// each fails unless text has all words.
func each(t *testing.T, text string, given ...string) {
	t.Helper()
	for _, w := range given {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

func TestSessionWhy(t *testing.T) {
	o := startOperated(t)
	code, stdout, _ := execute(t, "", "session", "why", livingID.String())
	each(t, stdout, "lives", "timeout is 10s", "node 1 serves it", "leader of term 7", "2.1s old", "expires 8s from now",
		"50ms later", "only node 1 knows")
	o.mu.Lock()
	o.alone = true
	o.mu.Unlock()
	_, stdout, _ = execute(t, "", "session", "why", livingID.String())
	each(t, stdout, "from 10.0.0.1:4000 since 2026-01-01", "protocol grpc", `as "worker", with`, "ip:10.0.0.1, x509:CN=w",
		"1 session and 2 watches")
	_, stdout, _ = execute(t, "", "session", "why", livingID.String(), "-o", "json")
	var alive whyView
	if err := json.Unmarshal([]byte(stdout), &alive); err != nil || alive.Client == nil || alive.Client.Watches != 2 {
		t.Errorf("JSON %s, %v", stdout, err)
	}
	if code != exitDone {
		t.Errorf("exit code %d", code)
	}
	_, stdout, _ = execute(t, "", "session", "why", endedID.String())
	each(t, stdout, "it expired", "12.3s before", "through node 2", "silent for 11s", "given 2s more", "1.5s had counted",
		"251ms after", "entry 99", "2 ephemeral", "will was carried out", "service=web", "timeout of 10s",
		"The log of node 2 has the address and the name of its client")
	_, stdout, _ = execute(t, "", "session", "why", endedID.String(), "-o", "json")
	var v whyView
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || v.Certificate == nil || v.Certificate.LateMS == nil ||
		*v.Certificate.LateMS != 251 || v.Certificate.Will != "carried out" || len(v.Why) == 0 {
		t.Errorf("JSON %s, %v", stdout, err)
	}
	if code, _, stderr := execute(t, "", "session", "why", "0x01"); code != exitFailed || stderr == "" {
		t.Errorf("an unknown session: %d, %q", code, stderr)
	}
	if code, _, _ := execute(t, "", "session", "why", "x"); code != exitUsage {
		t.Errorf("no id: %d", code)
	}
}

// The explanation invents nothing: what a certificate does not tell is not told.
func TestSessionWhyInventsNothing(t *testing.T) {
	old := dead()
	old.Story, old.Left, old.Credited, old.LastTouchAge = session.Story{Timeout: time.Second}, session.Left{}, 0, -time.Millisecond
	text := strings.Join(words.Ended(&old), "\n")
	each(t, text, "heard of no touch in its term")
	for _, never := range []string{"silent", "given", "ephemeral", "will", "counted"} {
		if strings.Contains(text, never) {
			t.Errorf("it tells of %q:\n%s", never, text)
		}
	}
}

func TestSessionDeaths(t *testing.T) {
	o := startOperated(t)
	code, stdout, stderr := execute(t, "", "session", "deaths", "--since", "1h", "--until", "30m", "--cause", "killed",
		"--label", "service")
	each(t, stdout, "expired", "killed", endedID.String(), "service=web", `\x1b`)
	if code != exitDone || !strings.Contains(stderr, "no longer kept") || strings.Contains(stdout, "\x1b[31m") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	o.mu.Lock()
	if f := o.filter; f.GetCause() != holdfastv1.Cause_CAUSE_KILLED || len(f.GetLabels()) != 1 ||
		time.Since(f.GetSince().AsTime()).Round(time.Minute) != time.Hour ||
		time.Since(f.GetUntil().AsTime()).Round(time.Minute) != 30*time.Minute {
		t.Errorf("the filter is %v", f)
	}
	o.mu.Unlock()
	_, stdout, _ = execute(t, "", "session", "deaths", "--limit", "1", "-o", "json")
	if strings.Count(stdout, `"id"`) != 1 {
		t.Errorf("limited to 1: %s", stdout)
	}
	for _, wrong := range [][]string{{"--cause", "x"}, {"--owner", "255"}, {"--since", "-1s"}, {"--since", "1h", "--until", "1h"}} {
		if code, _, _ := execute(t, "", append([]string{"session", "deaths"}, wrong...)...); code != exitUsage {
			t.Errorf("%v: exit code %d", wrong, code)
		}
	}
}

func TestSessionKill(t *testing.T) {
	o := startOperated(t)
	o.alone = true
	count := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.kills)
	}
	for name, args := range map[string][]string{
		"dry run":   {livingID.String(), "--dry-run"},
		"by label":  {"--label", "service=web", "--dry-run"},
		"as JSON":   {livingID.String(), "--dry-run", "-o", "json"},
		"by a node": {"--owner", "1", "--dry-run"},
	} {
		code, stdout, _ := execute(t, "", append([]string{"session", "kill"}, args...)...)
		if code != exitDone || !strings.Contains(stdout, livingID.String()) || count() != 0 {
			t.Errorf("%s: exit code %d, %d kills, %q", name, code, count(), stdout)
		}
	}
	for _, answer := range []string{"", "y\n", "no\n"} {
		if code, _, stderr := execute(t, answer, "session", "kill", livingID.String()); code != exitFailed || count() != 0 ||
			!strings.Contains(stderr, "not confirmed") {
			t.Errorf("answered %q: exit code %d, %d kills, %q", answer, code, count(), stderr)
		}
	}
	code, stdout, stderr := execute(t, "yes\n", "session", "kill", livingID.String(), endedID.String(), "--why", "stuck")
	each(t, stdout, "killed", "it had expired before", "1 of 2 sessions killed")
	if code != exitDone || !strings.Contains(stderr, "End 2 sessions?") || count() != 1 {
		t.Errorf("exit code %d, %q, %d kills", code, stderr, count())
	}
	o.mu.Lock()
	if got := o.kills[0]; got.GetWhy() != "stuck" ||
		!slices.Equal(got.GetIds(), []uint64{uint64(livingID), uint64(endedID)}) {
		t.Errorf("asked for %v", got)
	}
	o.mu.Unlock()
	// What cannot be ended now is tried again, a bounded number of times; the others are ended.
	code, stdout, stderr = execute(t, "", "session", "kill", "0x05", livingID.String(), "--yes")
	if code != exitFailed || count() != 1+killTries || !strings.Contains(stderr, "1 of 2 sessions live on") {
		t.Errorf("a session that is being closed: %d, %d kills, %q, %q", code, count(), stdout, stderr)
	}
	for _, wrong := range [][]string{
		{},
		{"x"},
		{livingID.String(), "--label", "a=b"},
		{"--label", "a=b", "--scope", "x"},
		{livingID.String(), "--scope", "x"},
		{livingID.String(), "--scope", "local"},
		{"--principal-of", "x"},
		{"--principal", "worker", "--label", "a=b"},
		{livingID.String(), "--principal", "worker"},
		{"--principal", "worker", "--scope", "local"},
		{"--principal", "worker", "--owner", "1"},
	} {
		if code, _, _ := execute(t, "", append([]string{"session", "kill"}, wrong...)...); code != exitUsage {
			t.Errorf("%v: exit code %d", wrong, code)
		}
	}
}

// Many sessions are ended in bounded batches, and the command says how far it has come.
func TestSessionKillInBatches(t *testing.T) {
	o := startOperated(t)
	args := []string{"session", "kill", "--yes"}
	for i := range session.ID(session.MaxKill + 1) {
		args = append(args, (livingID + i + 1).String())
	}
	code, stdout, stderr := execute(t, "", args...)
	if code != exitDone || !strings.Contains(stdout, "257 of 257 sessions killed") ||
		!strings.Contains(stderr, "256 of 257 sessions done") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if len(o.kills) != 2 || len(o.kills[0].GetIds()) != session.MaxKill {
		t.Errorf("%d requests", len(o.kills))
	}
}

// The sessions of a caller are listed, and ended after the answer yes. Members that do not answer are named, and
// sessions of a caller who only says who it is stay.
func TestSessionKillByPrincipal(t *testing.T) {
	o := startOperated(t)
	o.alone = true
	of := func(stdin, principal string, more ...string) (code int, stdout, stderr string) {
		t.Helper()
		return execute(t, stdin, append([]string{"session", "kill", "--principal", principal}, more...)...)
	}
	code, stdout, _ := of("", "worker", "--dry-run")
	each(t, stdout, livingID.String(), "1 sessions would be killed")
	if code != exitDone || len(o.kills) != 0 {
		t.Errorf("dry run: exit code %d, %d kills", code, len(o.kills))
	}
	if refused, _, stderr := of("no\n", "worker"); refused != exitFailed || !strings.Contains(stderr, "End 1 sessions?") ||
		len(o.kills) != 0 {
		t.Errorf("not confirmed: exit code %d, %d kills, %s", refused, len(o.kills), stderr)
	}
	for _, none := range []string{"work", "\x1b[31mred", "ip:10.0.0"} {
		done, said, stderr := of("", none, "--yes")
		if done != exitDone || !strings.Contains(said, "0 sessions would be killed") || len(o.kills) != 0 {
			t.Errorf("%q: exit code %d, %s, %s", none, done, said, stderr)
		}
		if claims := none == "\x1b[31mred"; strings.Contains(stderr, "nothing proves it") != claims {
			t.Errorf("%q: %s", none, stderr)
		}
	}
	code, stdout, _ = of("yes\n", "x509:CN=w")
	if code != exitDone || !strings.Contains(stdout, "1 of 1 sessions killed") || len(o.kills) != 1 {
		t.Errorf("exit code %d, %d kills, %s", code, len(o.kills), stdout)
	}
	o.mu.Lock()
	o.alone = false // now the members are elsewhere
	o.mu.Unlock()
	code, _, stderr := of("", "worker", "--yes", "--call-timeout", "300ms")
	if code == exitDone || !strings.Contains(stderr, "not all nodes answered") && !strings.Contains(stderr, "deadline") {
		t.Errorf("members that do not answer: exit code %d, %s", code, stderr)
	}
}
