package clientport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"holdfast/auth"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/authz"
	"holdfast/transport/wire"
)

// fakeAdmin is a node that has ended 3 sessions and knows one that lives.
type fakeAdmin struct {
	mu      sync.Mutex
	kills   []session.KillRequest   // guarded by mu
	freezes []session.FreezeRequest // guarded by mu
	extends []session.ExtendRequest // guarded by mu
	asked   []session.DeathQuery    // guarded by mu
	fails   error                   // guarded by mu
	ended   [3]session.Certificate  // constant
}

func (*fakeAdmin) State() session.NodeState {
	return session.NodeState{Node: 3, Mode: session.ModeReadWrite, Index: 40}
}

func (a *fakeAdmin) Explain(_ context.Context, id session.ID, seen uint64) (session.Session, session.Vigil, error) {
	switch {
	case id == 7 && seen == 11:
		return session.Session{ID: 7, Spec: session.Spec{Timeout: time.Second}, Owner: 1, Attachment: 3}, session.Vigil{
			Leader: 2, Term: 5, Led: time.Minute, Remaining: time.Second, LastTouchAge: -1, VouchedAge: time.Minute,
		}, nil
	case id == a.ended[0].ID:
		return session.Session{}, session.Vigil{}, &session.ExpiredError{ID: id, Certificate: &a.ended[0]}
	default:
		return session.Session{}, session.Vigil{}, &session.ExpiredError{ID: id}
	}
}

func (a *fakeAdmin) Deaths(_ context.Context, q session.DeathQuery) (session.DeathPage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, q)
	return session.DeathPage{Certificates: a.ended[:], Numbers: []uint64{9, 8, 7}, Next: 7}, a.fails
}

func (a *fakeAdmin) Kill(_ context.Context, r session.KillRequest) ([]session.Killed, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kills = append(a.kills, r)
	killed := make([]session.Killed, len(r.IDs))
	for i := range killed {
		killed[i].Index = 41
	}
	killed[0] = session.Killed{Err: session.ErrClosing}
	return killed, a.fails
}

func (a *fakeAdmin) Freeze(_ context.Context, r session.FreezeRequest) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.freezes = append(a.freezes, r)
	return 41, a.fails
}

func (a *fakeAdmin) Extend(_ context.Context, r session.ExtendRequest) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.extends = append(a.extends, r)
	return 42, a.fails
}

// withAdmin runs a test with a client of a fakeAdmin, and with the lines of the audit.
func withAdmin(t *testing.T, a *fakeAdmin, test func(*testing.T, holdfastv1.AdminServiceClient, *auditLines)) {
	t.Helper()
	for i := range a.ended {
		a.ended[i] = session.Certificate{
			ID: session.ID(100 + i), Cause: session.CauseKilled, Owner: 1, Term: 2, Index: 30, EndedAt: session.Epoch(),
			Story: session.Story{
				Spec: session.Spec{Timeout: time.Second}, OpenedAt: session.Epoch(), By: "ops",
				Why: "stuck",
			},
		}
	}
	lines := new(auditLines)
	audit := authz.NewAudit(hclog.New(&hclog.LoggerOptions{Output: lines, DisableTime: true}), auth.ClientPort())
	cfg := Config{Operators: Operators{Admin: a}, Authorizer: authz.New(authz.Config{
		Logger: hclog.NewNullLogger(), Mode: authz.None, Table: auth.ClientPort(), Audit: audit,
	})}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, cfg, &fakeService{})
		defer stop()
		test(t, holdfastv1.NewAdminServiceClient(dialPipes(t, network)), lines)
	})
}

// auditLines are the lines that the audit wrote.
type auditLines struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *auditLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *auditLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(strings.Lines(l.text.String()))
}

// Every act of an operator is one line, with who did it, from where, what and its outcome, whether it was carried out
// or refused. Looking is no act. The certificates of killed sessions name the operator.
func TestActsAreAudited(t *testing.T) {
	a := &fakeAdmin{}
	withAdmin(t, a, func(t *testing.T, c holdfastv1.AdminServiceClient, lines *auditLines) {
		t.Helper()
		ctx := metadata.AppendToOutgoingContext(t.Context(), wire.ClientNameKey, "ops")
		answer, err := c.KillSessions(ctx, &holdfastv1.KillSessionsRequest{Ids: []uint64{1, 2, 3, 4, 5}, Why: "stuck"})
		if err != nil || len(answer.GetResults()) != 5 || answer.GetResults()[0].GetError().GetReason() !=
			holdfastv1.Reason_REASON_CLOSING || answer.GetResults()[4].GetIndex() != 41 || answer.GetState().GetIndex() != 40 {
			t.Errorf("got %v, %v", answer, err)
		}
		a.mu.Lock()
		if got := a.kills[0]; got.By != "ops" || got.Why != "stuck" || len(got.IDs) != 5 {
			t.Errorf("asked for %+v", got)
		}
		a.fails = session.ErrOutcomeUnknown
		a.mu.Unlock()
		_, err = c.KillSessions(t.Context(), &holdfastv1.KillSessionsRequest{Ids: []uint64{1}})
		if !errors.Is(wire.Domain(err), session.ErrOutcomeUnknown) {
			t.Errorf("failed with %v", err)
		}
		_, _ = c.ListDeaths(t.Context(), &holdfastv1.ListDeathsRequest{})
		all := lines.all()
		if len(all) != 2 {
			t.Fatalf("the audit is %q", all)
		}
		for i, words := range [][]string{
			{
				`action="kill sessions" who=unverified:ops from=pipe`, `outcome=done took=`, `result="4 of 5 ended"`,
				`ids=[0x0000000000000001 0x0000000000000002 0x0000000000000003 0x0000000000000004 0x0000000000000005]`,
			},
			{`who=unverified from=pipe`, "outcome=failed", "error="},
		} {
			for _, want := range words {
				if !strings.Contains(all[i], want) {
					t.Errorf("line %d lacks %s: %s", i, want, all[i])
				}
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if by := a.kills[1].By; by != "pipe" {
			t.Errorf("a nameless operator is %q in certificates, want its address", by)
		}
	})
}

// A kill that has ended no session is not done, though it is answered: the line says why, as of the first session.
func TestAKillOfNothingIsNotDone(t *testing.T) {
	withAdmin(t, &fakeAdmin{}, func(t *testing.T, c holdfastv1.AdminServiceClient, lines *auditLines) {
		t.Helper()
		answer, err := c.KillSessions(t.Context(), &holdfastv1.KillSessionsRequest{Ids: []uint64{1}})
		if err != nil || answer.GetResults()[0].GetError() == nil {
			t.Fatalf("got %v, %v", answer, err)
		}
		line := strings.Join(lines.all(), "")
		for _, want := range []string{"outcome=failed", `result="0 of 1 ended"`, "error=", session.ErrClosing.Error()} {
			if !strings.Contains(line, want) {
				t.Errorf("the audit lacks %s: %s", want, line)
			}
		}
	})
}

func TestExplainSession(t *testing.T) {
	withAdmin(t, &fakeAdmin{}, func(t *testing.T, c holdfastv1.AdminServiceClient, _ *auditLines) {
		t.Helper()
		r, err := c.ExplainSession(t.Context(), &holdfastv1.ExplainSessionRequest{SessionId: 7, SeenIndex: 11})
		v, convertErr := wire.VigilFrom(r.GetVigil())
		if err != nil || convertErr != nil || r.GetSession().GetId() != 7 || v.Leader != 2 || v.Led != time.Minute ||
			v.LastTouchAge >= 0 || v.VouchedAge != time.Minute || v.Silent != 0 {
			t.Errorf("a living session: %v, %v, %v", r, err, convertErr)
		}
		r, err = c.ExplainSession(t.Context(), &holdfastv1.ExplainSessionRequest{SessionId: 100})
		if err != nil || r.GetCertificate().GetWhy() != "stuck" || r.GetCertificate().GetLate() != nil {
			t.Errorf("an ended session: %v, %v", r, err)
		}
		if _, err := c.ExplainSession(t.Context(), &holdfastv1.ExplainSessionRequest{SessionId: 8}); status.Code(err) !=
			codes.NotFound {
			t.Errorf("an unknown session: %v", err)
		}
	})
}

func TestListDeaths(t *testing.T) {
	a := &fakeAdmin{}
	withAdmin(t, a, func(t *testing.T, c holdfastv1.AdminServiceClient, _ *auditLines) {
		t.Helper()
		first, err := c.ListDeaths(t.Context(), &holdfastv1.ListDeathsRequest{Filter: &holdfastv1.DeathFilter{
			Cause: holdfastv1.Cause_CAUSE_KILLED, Owner: 2, Labels: map[string]string{"service": ""},
		}})
		if err != nil || len(first.GetCertificates()) != 3 || first.GetNextPageToken() == "" {
			t.Fatalf("got %v, %v", first, err)
		}
		if _, err := c.ListDeaths(t.Context(), &holdfastv1.ListDeathsRequest{
			PageToken: first.GetNextPageToken(), PageSize: session.MaxPage,
			Filter: &holdfastv1.DeathFilter{Scope: holdfastv1.Scope_SCOPE_LOCAL},
		}); err != nil {
			t.Error(err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		one, two := a.asked[0], a.asked[1]
		if one.Before != 0 || one.Size != defaultPage || one.Filter.Cause != session.CauseKilled || one.Filter.Owner != 2 ||
			len(one.Filter.Labels) != 1 || two.Before != 7 || two.Size != session.MaxPage || !two.Filter.Local {
			t.Errorf("asked for %+v and %+v", one, two)
		}
	})
}

func TestAdminRefusesBadRequests(t *testing.T) {
	withAdmin(t, &fakeAdmin{}, func(t *testing.T, c holdfastv1.AdminServiceClient, lines *auditLines) {
		t.Helper()
		kill := func(r *holdfastv1.KillSessionsRequest) error {
			_, err := c.KillSessions(t.Context(), r)
			return err
		}
		list := func(r *holdfastv1.ListDeathsRequest) error {
			_, err := c.ListDeaths(t.Context(), r)
			return err
		}
		_, unnamed := c.ExplainSession(t.Context(), &holdfastv1.ExplainSessionRequest{})
		for field, err := range map[string]error{
			"session_id":   unnamed,
			"ids":          kill(&holdfastv1.KillSessionsRequest{}),
			"ids ":         kill(&holdfastv1.KillSessionsRequest{Ids: make([]uint64, session.MaxKill+1)}),
			"ids  ":        kill(&holdfastv1.KillSessionsRequest{Ids: []uint64{4, 4}}),
			"ids   ":       kill(&holdfastv1.KillSessionsRequest{Ids: []uint64{0}}),
			"why":          kill(&holdfastv1.KillSessionsRequest{Ids: []uint64{4}, Why: fmt.Sprintf("%257d", 1)}),
			"page_size":    list(&holdfastv1.ListDeathsRequest{PageSize: session.MaxPage + 1}),
			"page_token":   list(&holdfastv1.ListDeathsRequest{PageToken: "x"}),
			"filter.cause": list(&holdfastv1.ListDeathsRequest{Filter: &holdfastv1.DeathFilter{Cause: 99}}),
			"filter.owner": list(&holdfastv1.ListDeathsRequest{Filter: &holdfastv1.DeathFilter{Owner: 255}}),
			"filter.scope": list(&holdfastv1.ListDeathsRequest{Filter: &holdfastv1.DeathFilter{Scope: 9}}),
			"filter.labels": list(&holdfastv1.ListDeathsRequest{
				Filter: &holdfastv1.DeathFilter{Labels: map[string]string{"": ""}},
			}),
		} {
			got, ok := errors.AsType[*session.FieldError](wire.Domain(err))
			if want := field; !ok || got.Field != strings.TrimSpace(want) {
				t.Errorf("%q: %v", want, err)
			}
		}
		for _, line := range lines.all() {
			if !strings.Contains(line, "outcome=failed") {
				t.Errorf("a malformed request was audited as %s", line)
			}
		}
	})
}
