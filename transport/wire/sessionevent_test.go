package wire

import (
	"testing"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/tree"
)

func TestSessionEventsRoundTrip(t *testing.T) {
	s, c := porttest.Grant(7).Session, porttest.Certificate(7)
	for _, want := range []session.Event{
		{Stamp: 1}, {Stamp: 1, Lost: true}, {Stamp: 9 << 16, Opened: &s}, {Stamp: 1, Moved: &s}, {Stamp: 1, Ended: &c},
	} {
		got, err := SessionEventFrom(overWire(t, SessionEventProto(want)))
		wantEqual(t, got, err, want)
	}
	w := session.Watching{Since: 7, Options: tree.ReadOptions{Seen: 9, AllowStale: true}}
	wantEqual(t, WatchingFrom(overWire(t, WatchingProto(w))), nil, w)

	_, err := SessionEventFrom(nil)
	porttest.WantField(t, err, "stamp")
	_, err = SessionEventFrom(&holdfastv1.WatchSessionsResponse{
		Stamp: 1, Event: &holdfastv1.WatchSessionsResponse_Opened{Opened: &holdfastv1.Session{}},
	})
	porttest.WantField(t, err, "session.owner")
	_, err = SessionEventFrom(&holdfastv1.WatchSessionsResponse{
		Stamp: 1, Event: &holdfastv1.WatchSessionsResponse_Ended{Ended: &holdfastv1.Certificate{}},
	})
	porttest.WantField(t, err, "certificate.session_id")
}
