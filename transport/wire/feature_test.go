package wire

import (
	"testing"

	"holdfast/session"
)

// The feature level travels in both greetings of a stream (W8).
func TestFeatureLevelOfGreetings(t *testing.T) {
	hello := session.Hello{Node: 3, Incarnation: 1, Stream: 2, FeatureLevel: 7}
	_, got, err := HelloFrom(overWire(t, HelloProto("c", hello)))
	wantEqual(t, got, err, hello)
	welcome := session.LeaderMessage{Welcome: &session.Welcome{Term: 9, Leader: 1, FeatureLevel: 7}}
	p, err := LeaderProto(welcome)
	if err != nil {
		t.Fatal(err)
	}
	m, err := LeaderFrom(overWire(t, p))
	wantEqual(t, m, err, welcome)
}
