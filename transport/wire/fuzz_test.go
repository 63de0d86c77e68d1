package wire

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
)

// FuzzErrorDetail: any detail from a node gives an error, and any state in it is that of a valid node or none.
func FuzzErrorDetail(f *testing.F) {
	for _, d := range []*holdfastv1.ErrorDetail{
		{},
		Detail(&session.ExpiredError{ID: 7, LocalTo: 3}),
		Detail(&session.LimitError{Name: "n", Limit: "l", RetryAfter: time.Second}),
		{Reason: holdfastv1.Reason_REASON_SESSION_EXPIRED, Certificate: CertificateProto(porttest.Certificate(7))},
		{Reason: holdfastv1.Reason_REASON_NOT_LEADER, Field: "f", Limit: "l", State: StateProto(porttest.StateOf(3))},
		{Reason: holdfastv1.Reason_REASON_LIMIT, RetryAfter: durationpb.New(-time.Hour)},
		{State: &holdfastv1.NodeState{Node: 255, Mode: 9}},
	} {
		b, err := proto.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &holdfastv1.ErrorDetail{}
		if proto.Unmarshal(b, d) != nil {
			return
		}
		var state session.NodeState
		var err error
		porttest.OfMessage().Hold(t, len(b), func() { state, err = StateFrom(d.GetState()), FromDetail(d, "text") })
		if state.Node != 0 && !state.Node.Valid() {
			t.Errorf("%v became %+v", d.GetState(), state)
		}
		if err == nil || err.Error() == "" || Detail(err) == nil {
			t.Errorf("%v became %v", d, err)
		}
		if limit, ok := errors.AsType[*session.LimitError](err); ok && limit.RetryAfter < 0 {
			t.Errorf("%v has the retry time %v", d, limit.RetryAfter)
		}
		if Known(d.GetReason()) && Detail(err).GetReason() != d.GetReason() {
			t.Errorf("%v became %v", d, Detail(err))
		}
	})
}
