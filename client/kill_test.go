package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// The sessions of a caller are those of connections for which a node vouches, by the whole name. Nodes that do not
// answer are named.
func TestSessionsOfACaller(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		for name, want := range map[string]SessionsOfCaller{
			"worker": {IDs: []session.ID{7}}, "ip:10.0.0.1": {IDs: []session.ID{7}}, "work": {}, "ip:10.0.0": {},
			"claimer": {Claimed: 2}, // one at each node
		} {
			got, err := SessionsOf(t.Context(), cl, name)
			if err != nil || !slices.Equal(got.IDs, want.IDs) || got.Claimed != want.Claimed || len(got.Silent) != 0 {
				t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
			}
		}
		c.node(1).answer(func(what string) error {
			if what == "connections" {
				time.Sleep(time.Minute)
			}
			return nil
		})
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := SessionsOf(hurried, cl, "worker")
		if err != nil || !slices.Equal(got.IDs, []session.ID{7}) || len(got.Silent) != 1 || got.Silent[1] == nil {
			t.Errorf("with a node that does not answer: %+v, %v, want the other's", got, err)
		}
		c.node(1).answer(nil)
		c.node(2).down()
		got, err = SessionsOf(t.Context(), cl, "worker")
		if err != nil || !slices.Equal(got.IDs, []session.ID{7}) || len(got.Silent) != 1 || got.Silent[2] == nil {
			t.Errorf("with a node that is gone: %+v, %v", got, err)
		}
	})
}
