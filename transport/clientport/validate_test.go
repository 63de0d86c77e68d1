package clientport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// invalid is a request with one field out of its range, on a connection or unary.
type invalid struct {
	name  string
	field string
	// connect or unary.
	connect *holdfastv1.ClientMessage
	unary   proto.Message
}

func invalidOpens() []invalid {
	tooMany := map[string]string{}
	for i := range session.MaxLabels + 1 {
		tooMany[fmt.Sprint(i)] = ""
	}
	label := func(k, v string) func(*holdfastv1.OpenSessionRequest) {
		return func(o *holdfastv1.OpenSessionRequest) { o.Labels = map[string]string{k: v} }
	}
	var all []invalid
	for _, tt := range []struct {
		name, field string
		spoil       func(*holdfastv1.OpenSessionRequest)
	}{
		{"no timeout", "timeout", func(o *holdfastv1.OpenSessionRequest) { o.Timeout = nil }},
		{"zero timeout", "timeout", func(o *holdfastv1.OpenSessionRequest) { o.Timeout = durationpb.New(0) }},
		{"negative timeout", "timeout", func(o *holdfastv1.OpenSessionRequest) { o.Timeout = durationpb.New(-1) }},
		{"invalid timeout", "timeout", func(o *holdfastv1.OpenSessionRequest) {
			o.Timeout = &durationpb.Duration{Seconds: 1, Nanos: -1}
		}},
		{"endless timeout", "timeout", func(o *holdfastv1.OpenSessionRequest) {
			o.Timeout = &durationpb.Duration{Seconds: 1 << 60}
		}},
		{"too many labels", "labels", func(o *holdfastv1.OpenSessionRequest) { o.Labels = tooMany }},
		{"empty key", "labels", label("", "v")},
		{"long key", "labels", label(strings.Repeat("k", session.MaxLabelKey+1), "v")},
		{"long value", "labels", label("k", strings.Repeat("v", session.MaxLabelValue+1))},
		{"no request id", "request_id", func(o *holdfastv1.OpenSessionRequest) { o.RequestId = nil }},
		{"short request id", "request_id", func(o *holdfastv1.OpenSessionRequest) { o.RequestId = make([]byte, 15) }},
		{"long request id", "request_id", func(o *holdfastv1.OpenSessionRequest) { o.RequestId = make([]byte, 17) }},
	} {
		o := &holdfastv1.OpenSessionRequest{Timeout: durationpb.New(1), RequestId: make([]byte, 16)}
		tt.spoil(o)
		all = append(all,
			invalid{name: "open/" + tt.name, field: tt.field, unary: o},
			invalid{name: "connect/open/" + tt.name, field: tt.field, connect: &holdfastv1.ClientMessage{
				Message: &holdfastv1.ClientMessage_Open{
					Open: &holdfastv1.Open{Seq: 5, Timeout: o.Timeout, Labels: o.Labels, RequestId: o.RequestId},
				},
			}})
	}
	return all
}

func badTokens(field string) map[string]struct {
	field string
	token *holdfastv1.Token
} {
	type bad = struct {
		field string
		token *holdfastv1.Token
	}
	return map[string]bad{
		"no token":      {field, nil},
		"no id":         {field + ".session_id", &holdfastv1.Token{Credential: make([]byte, 16), Attachment: 1}},
		"no credential": {field + ".credential", &holdfastv1.Token{SessionId: 1, Attachment: 1}},
		"short credential": {
			field + ".credential", &holdfastv1.Token{SessionId: 1, Attachment: 1, Credential: make([]byte, 15)},
		},
		"long credential": {
			field + ".credential", &holdfastv1.Token{SessionId: 1, Attachment: 1, Credential: make([]byte, 17)},
		},
		"no attachment": {field + ".attachment", &holdfastv1.Token{SessionId: 1, Credential: make([]byte, 16)}},
	}
}

func invalidTokens() []invalid {
	var all []invalid
	for name, bad := range badTokens("token") {
		all = append(all,
			invalid{name: "close/" + name, field: bad.field, unary: &holdfastv1.CloseSessionRequest{Token: bad.token}},
			invalid{
				name: "resume/" + name, field: bad.field,
				unary: &holdfastv1.ResumeSessionRequest{Token: bad.token, Instance: 1, Attempt: 1},
			},
			invalid{name: "connect/close/" + name, field: bad.field, connect: &holdfastv1.ClientMessage{
				Message: &holdfastv1.ClientMessage_Close{Close: &holdfastv1.Close{Seq: 5, Token: bad.token}},
			}},
			invalid{name: "connect/resume/" + name, field: bad.field, connect: &holdfastv1.ClientMessage{
				Message: &holdfastv1.ClientMessage_Resume{
					Resume: &holdfastv1.Resume{Seq: 5, Token: bad.token, Instance: 1, Attempt: 1},
				},
			}})
	}
	good := wire.TokenProto(porttest.Grant(3).Token)
	for name, bad := range badTokens("tokens[1]") {
		if bad.token == nil {
			continue // it is empty on the wire
		}
		all = append(all, invalid{name: "touch/" + name, field: bad.field, unary: &holdfastv1.TouchSessionsRequest{
			Tokens: []*holdfastv1.Token{good, bad.token},
		}})
	}
	resume := func(instance, attempt uint64) *holdfastv1.Resume {
		return &holdfastv1.Resume{Seq: 5, Token: good, Instance: instance, Attempt: attempt}
	}
	return append(all,
		invalid{
			name: "touch/too many", field: "tokens",
			unary: &holdfastv1.TouchSessionsRequest{Tokens: make([]*holdfastv1.Token, session.MaxTouchBatch+1)},
		},
		invalid{
			name: "resume/no instance", field: "instance",
			unary: &holdfastv1.ResumeSessionRequest{Token: good, Attempt: 1},
		},
		invalid{
			name: "resume/no attempt", field: "attempt",
			unary: &holdfastv1.ResumeSessionRequest{Token: good, Instance: 1},
		},
		invalid{
			name: "connect/resume/no instance", field: "instance",
			connect: &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: resume(0, 1)}},
		},
		invalid{
			name: "connect/resume/no attempt", field: "attempt",
			connect: &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: resume(1, 0)}},
		},
		invalid{
			name: "connect/touch/too many", field: "ids",
			connect: touchMessage(5, make([]uint64, session.MaxTouchBatch+1)...),
		},
		invalid{name: "connect/touch/no id", field: "ids", connect: touchMessage(5, 1, 0)},
		invalid{name: "get/no id", field: "session_id", unary: &holdfastv1.GetSessionRequest{}},
	)
}

func invalidLists() []invalid {
	second, two := durationpb.New(time.Second), durationpb.New(2*time.Second)
	bad := &durationpb.Duration{Nanos: 1e9}
	filters := []struct {
		name, field string
		filter      *holdfastv1.SessionFilter
	}{
		{"owner", "filter.owner", &holdfastv1.SessionFilter{Owner: 255}},
		{"owner above a byte", "filter.owner", &holdfastv1.SessionFilter{Owner: 257}},
		{"labels", "filter.labels", &holdfastv1.SessionFilter{Labels: map[string]string{"": ""}}},
		{"scope", "filter.scope", &holdfastv1.SessionFilter{Scope: 3}},
		{"invalid min_age", "filter.min_age", &holdfastv1.SessionFilter{MinAge: bad}},
		{"negative min_age", "filter.min_age", &holdfastv1.SessionFilter{MinAge: durationpb.New(-1)}},
		{"invalid max_age", "filter.max_age", &holdfastv1.SessionFilter{MaxAge: bad}},
		{"ages crossed", "filter.max_age", &holdfastv1.SessionFilter{MinAge: two, MaxAge: second}},
		{"negative min_remaining", "filter.min_remaining", &holdfastv1.SessionFilter{MinRemaining: durationpb.New(-1)}},
		{"zero max_remaining", "filter.max_remaining", &holdfastv1.SessionFilter{MaxRemaining: durationpb.New(0)}},
		{"invalid max_remaining", "filter.max_remaining", &holdfastv1.SessionFilter{MaxRemaining: bad}},
		{
			"remaining crossed", "filter.max_remaining",
			&holdfastv1.SessionFilter{MinRemaining: two, MaxRemaining: second},
		},
	}
	var all []invalid
	for _, f := range filters {
		all = append(
			all, invalid{
				name: "list/" + f.name, field: f.field, unary: &holdfastv1.ListSessionsRequest{Filter: f.filter},
			},
		)
	}
	for _, token := range []string{"!", "AAAA", pageToken(0) + "AAAAAAAAAAA", pageToken(1) + "="} {
		all = append(
			all, invalid{
				name: "list/page_token " + token, field: "page_token",
				unary: &holdfastv1.ListSessionsRequest{PageToken: token},
			},
		)
	}
	return append(
		all, invalid{
			name: "list/order", field: "order", unary: &holdfastv1.ListSessionsRequest{Order: 2},
		}, invalid{
			name: "list/page_token of the soonest", field: "page_token", unary: &holdfastv1.ListSessionsRequest{
				Order: holdfastv1.SessionOrder_SESSION_ORDER_REMAINING, PageToken: pageToken(1),
			},
		}, invalid{
			name: "list/page_size", field: "page_size",
			unary: &holdfastv1.ListSessionsRequest{PageSize: session.MaxPage + 1},
		},
	)
}

// call calls the unary method whose request is req.
func call(ctx context.Context, c holdfastv1.SessionServiceClient, req proto.Message) (err error) {
	switch req := req.(type) {
	case *holdfastv1.OpenSessionRequest:
		_, err = c.OpenSession(ctx, req)
	case *holdfastv1.ResumeSessionRequest:
		_, err = c.ResumeSession(ctx, req)
	case *holdfastv1.TouchSessionsRequest:
		_, err = c.TouchSessions(ctx, req)
	case *holdfastv1.CloseSessionRequest:
		_, err = c.CloseSession(ctx, req)
	case *holdfastv1.GetSessionRequest:
		_, err = c.GetSession(ctx, req)
	case *holdfastv1.ListSessionsRequest:
		_, err = c.ListSessions(ctx, req)
	default:
		err = errors.New("no such method")
	}
	return err
}

// TestEveryFieldHasARange sends each field out of its range and wants it refused by its name, without the service being
// called.
func TestEveryFieldHasARange(t *testing.T) {
	untouched := &fakeService{
		open: func(context.Context, session.OpenRequest) (session.Grant, error) {
			t.Error("an invalid open reached the service")
			return session.Grant{}, nil
		},
		resume: func(context.Context, session.ResumeRequest) (session.Grant, error) {
			t.Error("an invalid resume reached the service")
			return session.Grant{}, nil
		},
		closing: func(context.Context, session.Token) error {
			t.Error("an invalid close reached the service")
			return nil
		},
		touch: func(ids []session.ID) session.Touched {
			if ids != nil {
				t.Error("an invalid touch reached the service")
			}
			return session.Touched{SafeFor: 1}
		},
		touchToken: func(context.Context, session.Token) (time.Duration, error) {
			t.Error("an invalid token reached the service")
			return 0, nil
		},
	}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, untouched)
		defer stop()
		client := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		stream := connected(t, network)
		for _, tt := range append(append(invalidOpens(), invalidTokens()...), invalidLists()...) {
			if tt.unary != nil {
				err := wire.Domain(call(t.Context(), client, tt.unary))
				if !errors.Is(err, session.ErrInvalid) {
					t.Errorf("%s: %v", tt.name, err)
				}
				porttest.WantField(t, err, tt.field)
				continue
			}
			send(t, stream, tt.connect)
			failed := receive(t, stream).GetFailed()
			if failed.GetSeq() != 5 {
				t.Errorf("%s: answered with seq %d", tt.name, failed.GetSeq())
			}
			porttest.WantField(t, wire.FailedError(failed), tt.field)
		}
		// The connection goes on.
		send(t, stream, touchMessage(6))
		if got := receive(t, stream).GetTouched().GetSeq(); got != 6 {
			t.Errorf("a touch after the refusals was answered with seq %d", got)
		}
	})
}

func TestMessagesWithoutSeqAreAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		stream := connected(t, network)
		for _, m := range []*holdfastv1.ClientMessage{
			openMessage(0), resumeMessage(0, 1), touchMessage(0),
			closeMessage(0, 1),
		} {
			send(t, stream, m)
			porttest.WantField(t, wire.FailedError(receive(t, stream).GetFailed()), "seq")
		}
		send(t, stream, &holdfastv1.ClientMessage{})
		porttest.WantField(t, wire.FailedError(receive(t, stream).GetFailed()), "message")
		if got := s.Stats().Failed; got != 5 {
			t.Errorf("counted %d failures, want 5", got)
		}
	})
}

func TestQueryOfARequest(t *testing.T) {
	now := time.Now()
	labels := map[string]string{"a": "", "b": "c"}
	f, err := filterFrom(&holdfastv1.SessionFilter{
		Owner: 254, Labels: maps.Clone(labels), Scope: holdfastv1.Scope_SCOPE_GLOBAL,
		MinAge: durationpb.New(time.Second),
		MaxAge: durationpb.New(time.Minute), MinRemaining: durationpb.New(2), MaxRemaining: durationpb.New(3),
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	if f.Owner != 254 || len(f.Labels) != 2 || f.Scope != session.ScopeGlobal ||
		!f.OpenedBefore.Equal(now.Add(-time.Second)) ||
		!f.OpenedAfter.Equal(now.Add(-time.Minute)) || f.MinRemaining != 2 || f.MaxRemaining != 3 {
		t.Errorf("got %+v", f)
	}
	if f, err := filterFrom(&holdfastv1.SessionFilter{Scope: holdfastv1.Scope_SCOPE_LOCAL}, now); err != nil ||
		f.Scope != session.ScopeLocal {
		t.Errorf("local sessions: %+v, %v", f, err)
	}
	for size, want := range map[uint32]int{0: defaultPage, 1: 1, session.MaxPage: session.MaxPage} {
		q, err := queryFrom(&holdfastv1.ListSessionsRequest{PageSize: size, PageToken: pageToken(0xfedcba9876543210)})
		if err != nil || q.Size != want || q.After != 0xfedcba9876543210 {
			t.Errorf("page_size %d: %+v, %v", size, q, err)
		}
	}
}
