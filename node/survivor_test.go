package node

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/node/storage"
	"holdfast/test/bubble"
)

// endOf returns the last entry of the log in a directory.
func endOf(t *testing.T, path string) storage.LogEnd {
	t.Helper()
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	var entry raft.Log
	last, err := log.LastIndex()
	if err = errors.Join(err, log.GetLog(last, &entry), log.Close()); err != nil {
		t.Fatal(err)
	}
	return storage.LogEnd{Term: entry.Term, Index: entry.Index}
}

// A survivor is judged by the last entry of its log, as voters judge candidates. A node with an old log may have voted
// in a newer term, for a candidate that is lost: an operator who went by that term would give up what was acknowledged.
func TestASurvivorsTermIsThatOfItsLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		leads := c.leader(within)
		c.mustOpen(leads, 5*time.Second)
		c.agree(5 * time.Second)
		path := c.config(leads).DataDir
		c.stop()
		want := endOf(t, path)
		log, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"CurrentTerm", "LastVoteTerm"} {
			err = errors.Join(err, log.stable.SetUint64([]byte(key), want.Term+7))
		}
		if err = errors.Join(err, log.Close()); err != nil {
			t.Fatal(err)
		}
		s, err := storage.OpenSurvivor(path, "test", hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if s.Last != want || want.Term == 0 || s.From.Term != want.Term+7 {
			t.Errorf("its log ends with %+v, want %+v; new terms begin above %d", s.Last, want, s.From.Term)
		}
	})
}
