package tree_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	treeservice "holdfast/learner/tree"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

const (
	one   = session.ID(7)
	other = session.ID(8)
)

// X1: the writes of each session go out in the order of the calls, and are answered in it, through both dispatchers.
func TestX1WritesGoOutInOrder(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		const n = 40
		clients := map[session.ID]*client{one: w.connects(one), other: w.connects(other)}
		for number := uint64(1); number <= n; number++ {
			for _, id := range []session.ID{one, other} {
				clients[id].writes(id, number)
			}
		}
		sent := w.takes()
		next := map[session.ID]uint64{}
		for _, s := range sent {
			if next[s.Session]++; s.Number != next[s.Session] {
				w.Fatalf("session %d sends %d, want %d", uint64(s.Session), s.Number, next[s.Session])
			}
		}
		for some := range slices.Chunk(sent, 7) {
			w.applies(some...)
		}
		for id, c := range clients {
			var want []string
			for number := range uint64(n) {
				want = append(want, named(number+1)+": done")
			}
			c.hears(want...)
			if applied, floor := w.service.Numbers(id); applied != n || floor != 0 {
				w.Errorf("session %d: numbers %d, %d", uint64(id), applied, floor)
			}
		}
	})
}

// X7: the queue goes back to the lowest unanswered number. Clients do not notice.
func TestX7TheQueueGoesBack(t *testing.T) {
	for name, then := range map[string]func(w *world, sent []session.ForwardedWrite){
		"on a new stream": func(w *world, sent []session.ForwardedWrite) {
			w.applies(sent[0])
			w.service.ForwardEnded(session.ErrNoLeader)
			w.sends("")
			if !w.service.StreamWanted() {
				w.Error("no stream is wanted")
			}
			w.service.ForwardBegan()
			w.applies(w.sends("7.2 7.3 7.4")...)
		},
		"after GAP of the state": func(w *world, sent []session.ForwardedWrite) {
			w.applies(sent[0], sent[2])  // the second was lost
			w.applies(w.sends("7.2")...) // one, and then twice as many
			w.applies(w.sends("7.3 7.4")...)
		},
		"once for all behind a gap": func(w *world, sent []session.ForwardedWrite) {
			w.applies(sent[1], sent[2], sent[3])
			w.applies(w.sends("7.1")...)
			w.applies(w.sends("7.2 7.3")...)
			w.applies(w.sends("7.4")...)
		},
		"after a refusal, as late as it was told": func(w *world, sent []session.ForwardedWrite) {
			w.applies(sent[0])
			w.service.WritesRefused([]session.WriteRefusal{
				{Session: one, Number: 2, Why: session.WriteBusy, RetryAfter: time.Second},
			})
			time.Sleep(time.Second - 1)
			w.sends("")
			time.Sleep(time.Nanosecond)
			w.applies(w.sends("7.2")...)
			w.applies(w.sends("7.3 7.4")...)
		},
		"after a restored snapshot": func(w *world, sent []session.ForwardedWrite) {
			w.restores(nil, sent[0], sent[1])
			w.applies(w.sends("7.3 7.4")...)
		},
		"when the stream takes no more": func(w *world, sent []session.ForwardedWrite) {
			w.node.mu.Lock()
			w.node.busy = true
			w.node.mu.Unlock()
			w.service.ForwardBegan()
			time.Sleep(time.Second)
			w.sends("")
			w.node.mu.Lock()
			w.node.busy = false
			w.node.mu.Unlock()
			w.service.ForwardBegan()
			w.applies(w.sends("7.1 7.2 7.3 7.4")...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				c := w.connects(one)
				c.writes(one, 1, 2, 3, 4)
				then(w, w.sends("7.1 7.2 7.3 7.4"))
				c.hears("1: done", "2: done", "3: done", "4: done")
				if root := w.tree.Freeze(); root.Len() != 7 { // with /, /zookeeper and /zookeeper/quota
					w.Errorf("%d entries", root.Len())
				}
			})
		})
	}
}

// X8: a write that the node refuses uses up no number. Later numbers are a GAP at the node, which names the one that it
// expects. All answers come in their turn.
func TestX8AdmissionAtTheNode(t *testing.T) {
	few := func(cfg *treeservice.Config) {
		cfg.Pending = pending.DefaultLimits()
		cfg.Pending.Unanswered = 2
	}
	refuse := func(c *client, number uint64) {
		if err := c.conn.Refuse(number, one, number, &session.LimitError{Name: "port"}); err != nil {
			c.Error(err)
		}
	}
	for name, test := range map[string]struct {
		change func(*treeservice.Config)
		do     func(c *client)
	}{
		"the first number is at most applied + 1": {nil, func(c *client) {
			c.writes(one, 2)
			c.hears("2: gap 1")
			c.writes(one, 1, 2)
			c.applies(c.sends("7.1 7.2")...)
			c.hears("1: done", "2: done")
		}},
		"a number is missing": {nil, func(c *client) {
			c.writes(one, 1, 3, 2)
			sent := c.sends("7.1")
			c.hears()
			c.applies(sent...)
			c.hears("1: done", "3: gap 2")
			c.applies(c.sends("7.2")...)
			c.hears("2: done")
		}},
		"too many are unanswered": {few, func(c *client) {
			c.writes(one, 1, 2, 3, 4)
			c.applies(c.sends("7.1 7.2")...)
			c.hears("1: done", "2: done", "3: unanswered_writes", "4: gap 3")
			c.writes(one, 3, 4)
			c.applies(c.sends("7.3 7.4")...)
			c.hears("3: done", "4: done")
		}},
		"the port refuses one": {nil, func(c *client) {
			c.writes(one, 1)
			refuse(c, 2)
			c.writes(one, 3)
			c.applies(c.sends("7.1")...)
			c.hears("1: done", "2: port", "3: gap 2")
		}},
		"the port refuses the first, which was applied before": {nil, func(c *client) {
			c.writes(one, 1)
			sent := c.sends("7.1")
			c.applies(sent...)
			c.hears("1: done")
			c.moves(one)
			again := c.connects(one)
			refuse(again, 1)
			again.writes(one, 2) // without its answer to 1, the client would never get one
			again.hears("1: port", "2: gap 1")
			again.writes(one, 1, 2)
			again.applies(again.sends("7.2")...)
			again.hears("1: unknown", "2: done")
		}},
		"a write that cannot be encoded": {nil, func(c *client) {
			wrong := numbered(one, 1, 0)
			wrong.Transaction.Then = []tree.Op{nil}
			if err := c.conn.Write(session.TreeWrite{Key: 1, Write: wrong}); err != nil {
				c.Error(err)
			}
			c.writes(one, 2)
			if got := c.told(); len(got) != 2 || got[1] != "2: gap 1" {
				c.Errorf("told %q", got)
			}
			c.sends("")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.change, func(w *world) { test.do(w.connects(one)) })
		})
	}
}

// X3: an acknowledgement in a write counts as soon as it arrives, also while the write stands behind a refusal that
// waits for its turn. Otherwise the state would refuse 2 until it knows that the client has the result of 1, and the
// write that says so would wait for the refusal of 3, and that for 2.
func TestX3AcknowledgementsWaitForNoTurn(t *testing.T) {
	inWorld(t, func(cfg *treeservice.Config) {
		cfg.Pending = pending.DefaultLimits()
		cfg.Pending.Unanswered = 2
	}, func(w *world) {
		limits := writers.DefaultLimits()
		limits.Results = 1
		w.writers.SetLimits(limits)
		c := w.connects(one)
		c.writes(one, 1, 2, 3)
		w.applies(w.sends("7.1 7.2")...) // 1 fills the window, and 2 gets WINDOW
		c.hears("1: done")
		if err := c.conn.Write(session.TreeWrite{Key: 2, Write: numbered(one, 2, 1)}); err != nil {
			w.Fatal(err)
		}
		w.applies(w.sends("7.2")...)
		c.hears("2: done", "3: unanswered_writes", "2: done")
	})
}

// G3: a session's answers come in the order of its requests, whatever becomes of each. Reads without a session wait for
// nobody.
func TestG3AnswersInTurn(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		exists := func(id session.ID) {
			if err := c.reads(tree.Query{Kind: tree.GetStat, Path: "/7-1", Session: uint64(id)}); err != nil {
				w.Error(err)
			}
		}
		c.writes(one, 1)
		exists(one)
		if err := c.conn.Refuse(2, one, 2, &session.LimitError{Name: "port"}); err != nil {
			w.Error(err)
		}
		exists(one)
		c.writes(one, 3)
		exists(0)
		before := w.index
		sent := w.sends("7.1")
		c.hears(read(3, before))
		w.applies(sent...)
		c.hears("1: done", read(1, before+1), "2: port", read(2, before+1), "3: gap 2")
	})
}

func read(n int, index uint64) string {
	return describe(&session.TreeMessage{Answer: &session.TreeAnswer{
		Key: readKeys + uint64(n), Stamp: tree.StampAt(index, 1), Read: &tree.Answer{},
	}})
}

// X2: a number that was answered gets its kept result again, and OUTCOME_UNKNOWN once that is acknowledged. It is not
// sent.
func TestX2AnsweredNumbersAreAnsweredAgain(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		c.writes(one, 1, 2)
		w.applies(w.sends("7.1 7.2")...)
		c.hears("1: done", "2: done")
		c.writes(one, 2, 1)
		w.sends("")
		c.hears("2: done", "1: done")
		if err := c.conn.Write(session.TreeWrite{Key: 3, Write: numbered(one, 3, 1)}); err != nil {
			w.Fatal(err)
		}
		w.applies(w.sends("7.3")...)
		c.writes(one, 1, 2)
		w.sends("")
		c.hears("3: done", "1: unknown", "2: done")
	})
}

// X6: a void replaces an unanswered write, and is sent again.
func TestX6AVoidTakesTheNumber(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		c.writes(one, 1, 2)
		sent := w.sends("7.1 7.2")
		void := tree.NumberedWrite{Session: uint64(one), Number: 1, Void: true}
		if err := c.conn.Write(session.TreeWrite{Key: 9, Write: void}); err != nil {
			w.Fatal(err)
		}
		again := w.sends("7.1 7.2")
		w.applies(again[0], sent[0], sent[1])
		c.hears("1: void", "9: void", "2: done")
		if _, ok := w.tree.Freeze().Stat("/7-1"); ok {
			w.Error("the void had an effect")
		}
	})
}

// M1, X4: a session that is taken over in the middle of its writes is the new connection's. The former one gets the
// move, and its sent writes take no effect.
func TestX4ATakeOverInTheMiddle(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		former := w.connects(one, other)
		former.writes(one, 1, 2, 3, 4)
		sent := w.sends("7.1 7.2 7.3 7.4")
		w.applies(sent[:2]...)
		w.moves(one)
		former.hears("1: done", "2: done", "3: moved", "4: moved")
		now := w.connects(one)
		if applied, floor := w.service.Numbers(one); applied != 2 || floor != 2 {
			w.Errorf("numbers %d, %d", applied, floor)
		}
		now.writes(one, 1, 3) // whoever has 1 is a former process
		fresh := w.sends("7.3")
		w.applies(sent[2], sent[3], fresh[0])
		now.hears("1: unknown", "3: done")
		former.hears()
		w.service.ForwardEnded(session.ErrNoLeader)
		w.service.ForwardBegan()
		w.sends("") // nothing of the former connection is left

		delete(former.attached, one)
		late := session.TreeWrite{Key: 5, Write: numbered(one, 5, 0)}
		if err := former.conn.Write(late); !errors.Is(err, session.ErrMoved) {
			w.Errorf("a write of the former connection: %v", err)
		}
		former.writes(other, 1)
		w.applies(w.sends("8.1")...)
		former.hears("1: done")
	})
}

// A session that ends while its writes are unanswered: the certificate's error, in their turn.
func TestX9ASessionEndsInTheMiddle(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		c.writes(one, 1, 2)
		w.applies(w.sends("7.1 7.2")[:1]...)
		w.ends(one)
		c.hears("1: done", "2: expired")
		w.service.ForwardBegan()
		w.sends("")
	})
}

// W4: after a restored snapshot the node answers from kept results. What it cannot know it says is unknown, and it
// sends the rest again.
func TestW4ARestoredSnapshot(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		again  string
		told   []string
	}{
		"with two of them": {nil, "7.3", []string{"1: done", "2: done"}},
		"without results": {
			func(w *world) { w.writers.Acknowledge(uint64(one), 1) }, "7.3",
			[]string{"1: unknown", "2: done"},
		},
		"in which the session has moved": {func(w *world) {
			w.writers.Moved(uint64(one))
			w.node.mu.Lock()
			defer w.node.mu.Unlock()
			w.node.sessions[one] = session.Session{ID: one, Attachment: 2}
		}, "", []string{"1: unknown", "2: unknown", "3: unknown"}},
		"in which the session has ended": {func(w *world) {
			w.writers.End(uint64(one))
			w.node.mu.Lock()
			defer w.node.mu.Unlock()
			delete(w.node.sessions, one)
		}, "", []string{"1: unknown", "2: unknown", "3: unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				c := w.connects(one)
				c.writes(one, 1, 2, 3)
				sent := w.sends("7.1 7.2 7.3")
				w.restores(func() {
					if test.change != nil {
						test.change(w)
					}
				}, sent[:2]...)
				w.sends(test.again)
				c.hears(test.told...)
			})
		})
	}
}

// X3: the node acknowledges for a session that was quiet for 10 s, once it knows that the client has the results, and
// again until the state shows it.
func TestX3AQuietSessionIsAcknowledged(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		c.writes(one, 1, 2)
		w.applies(w.sends("7.1 7.2")...)
		c.conn.Acknowledge([]session.Acknowledged{{Session: one, UpTo: 2}, {Session: other, UpTo: 9}})
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		acks := func() []session.Acknowledged {
			w.node.mu.Lock()
			defer w.node.mu.Unlock()
			return slices.Clone(w.node.acks)
		}
		if all := acks(); len(all) > 0 {
			w.Errorf("acknowledged %v too early", all)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want := session.Acknowledged{Session: one, UpTo: 2}
		if all := acks(); !slices.Equal(all, []session.Acknowledged{want}) {
			w.Errorf("acknowledged %v, want %v", all, want)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if all := acks(); len(all) != 2 {
			w.Errorf("acknowledged %v: the state has not shown it", all)
		}
		w.index++
		w.writers.Acknowledge(uint64(one), 2)
		w.service.Applied(w.state(), nil, nil)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if all := acks(); len(all) != 2 {
			w.Errorf("acknowledged %v: the state has shown it", all)
		}
	})
}

// W9: the leader learns through which connection a write came: that of the first write of its attachment.
func TestW9WritesNameTheirConnection(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a, b := w.connects(one, one+1), w.connects(one+2)
		a.writes(one, 1)
		b.writes(one+2, 1)
		a.writes(one+1, 1)
		from := map[session.ID]uint64{}
		for _, sent := range w.takes() {
			from[sent.Session] = sent.Connection
		}
		if from[one] == 0 || from[one] != from[one+1] || from[one+2] == 0 || from[one+2] == from[one] {
			t.Errorf("the writes of sessions come from connections %v", from)
		}
	})
}
