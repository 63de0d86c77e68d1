package core

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"holdfast/transport/wire"
	"holdfast/tree"
)

// A question for watches fits into a message that a node takes, whatever the paths.
func TestQuestionsForLongPathsFit(t *testing.T) {
	for _, owed := range []bool{false, true} {
		w := watches{all: make(map[tree.WatchSpec]*watched)}
		for i := range tree.MaxWatches {
			path := fmt.Sprintf("/%04d", i)
			path += strings.Repeat("x", tree.MaxPath-len(path))
			e := &watched{spec: tree.WatchSpec{Path: path, Kind: tree.WatchPersistent}, subs: []*Watch{{}}, owed: owed}
			w.all[e.spec] = e
			w.ask(e)
		}
		asked := 0
		for b := w.next(); b != nil; b = w.next() {
			var a tree.Addition
			for _, e := range b.entries {
				a.Watches = append(a.Watches, e.spec)
			}
			if size := proto.Size(wire.AdditionProto(1, a)); size > wire.DefaultMessageBytes/2 {
				t.Fatalf("%d watches make a message of %d bytes", len(b.entries), size)
			}
			asked += len(b.entries)
			w.back = nil // the node has answered
		}
		if asked != tree.MaxWatches {
			t.Errorf("asked for %d watches, owed: %v", asked, owed)
		}
	}
}
