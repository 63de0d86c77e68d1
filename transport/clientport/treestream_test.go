package clientport

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/metadata"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
	"holdfast/tree"
)

func writeMessage(seq, id, number uint64) *holdfastv1.ClientMessage {
	then := []tree.Op{tree.Delete{Path: "/a", Version: tree.Any}}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Write{Write: wire.WriteProto(seq,
		tree.NumberedWrite{Session: id, Number: number, Transaction: tree.Transaction{Then: then}})}}
}

func readMessage(seq, id uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Read{Read: wire.QueryProto(seq,
		tree.Query{Kind: tree.GetEntry, Path: "/a", Session: id})}}
}

func addMessage(seq, since uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_AddWatches{AddWatches: wire.AdditionProto(seq,
		tree.Addition{Watches: []tree.WatchSpec{{Path: "/a", Kind: tree.WatchRecursive}}, Since: tree.Stamp(since)})}}
}

func removeMessage(seq uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_RemoveWatches{RemoveWatches: wire.RemovalProto(seq,
		[]tree.WatchSpec{{Path: "/a"}})}}
}

func ackMessage(seq, id, upTo uint64) *holdfastv1.ClientMessage {
	m := touchMessage(seq, id)
	m.GetTouch().AckedIds, m.GetTouch().Acked = []uint64{id}, []uint64{upTo}
	return m
}

// answering answers a request of the tree in the way that a node does.
func answeringTree(f *fakeTree, asked any) error {
	switch r := asked.(type) {
	case session.TreeWrite:
		f.answer(session.TreeAnswer{Key: r.Key, Stamp: 70, Wrote: resultOf(r.Write)})
	case session.TreeRead:
		f.answer(session.TreeAnswer{Key: r.Key, Stamp: 71, Read: &tree.Answer{Kind: r.Query.Kind, Stat: fuzzedStat()}})
	case session.TreeAddition:
		f.answer(session.TreeAnswer{Key: r.Key, Stamp: 72})
	case removal:
		f.answer(session.TreeAnswer{Key: r.key, Stamp: 73, Removed: len(r.watches)})
	case refusal:
		f.answer(session.TreeAnswer{Key: r.key, Stamp: 74, Err: r.why})
	}
	return nil
}

// kinds returns what requests to a fakeTree are.
func kinds(asked []any) (all []string) {
	for _, a := range asked {
		all = append(all, reflect.TypeOf(a).String())
	}
	return all
}

func textOf(m *holdfastv1.ServerMessage) string {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ServerMessage_Written:
		return fmt.Sprintf("written %d at %d", m.Written.GetSeq(), m.Written.GetStamp())
	case *holdfastv1.ServerMessage_Read:
		return fmt.Sprintf("read %d at %d", m.Read.GetSeq(), m.Read.GetStamp())
	case *holdfastv1.ServerMessage_WatchesAdded:
		return fmt.Sprintf("added %d at %d", m.WatchesAdded.GetSeq(), m.WatchesAdded.GetStamp())
	case *holdfastv1.ServerMessage_WatchesRemoved:
		return fmt.Sprintf("removed %d: %d", m.WatchesRemoved.GetSeq(), m.WatchesRemoved.GetRemoved())
	case *holdfastv1.ServerMessage_Events:
		return fmt.Sprintf("events %d from %d", len(m.Events.GetEvents()), m.Events.GetEvents()[0].GetStamp())
	case *holdfastv1.ServerMessage_Lost:
		return fmt.Sprintf("lost %d", m.Lost.GetStamp())
	case *holdfastv1.ServerMessage_Progress:
		return fmt.Sprintf("told %d", m.Progress.GetStamp())
	case *holdfastv1.ServerMessage_Touched:
		return fmt.Sprintf("touched %d, told %d", m.Touched.GetSeq(), m.Touched.GetDelivered())
	case *holdfastv1.ServerMessage_Failed:
		return fmt.Sprintf("failed %d: %v %s", m.Failed.GetSeq(), m.Failed.GetError().GetReason(),
			m.Failed.GetError().GetField())
	default:
		return "another"
	}
}

// wantTexts fails unless the next messages are these.
func wantTexts(t *testing.T, stream holdfastv1.SessionService_ConnectClient, want ...string) {
	t.Helper()
	all, _ := receiveAnswers(t, stream, len(want))
	for i, m := range all {
		if got := textOf(m); got != want[i] {
			t.Errorf("message %d is %q, want %q", i, got, want[i])
		}
	}
}

func events(stamps ...tree.Stamp) session.TreeMessage {
	told := session.TreeMessage{}
	for _, s := range stamps {
		told.Events = append(told.Events, tree.Event{Stamp: s, Kind: tree.DataChanged, Path: "/a"})
		told.Delivered = s
	}
	return told
}

// Requests of the tree reach the node in the order of the stream, and the node's messages go out in their order.
// Touched names the newest stamp that was sent (G4 stamps of answers).
func TestTreeRequestsOfAStream(t *testing.T) {
	for name, each := range map[string]bool{"in a batch": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := &fakeService{}
				newest := withTree(service, nil)
				s, network, stop := clientPort(t, Config{}, service)
				defer stop()
				stream := holding(t, network, 7)
				requests := []*holdfastv1.ClientMessage{
					writeMessage(2, 7, 1), readMessage(3, 7), addMessage(4, 0), readMessage(5, 0), removeMessage(6),
					ackMessage(7, 7, 1),
				}
				if each {
					send(t, stream, requests...)
				} else {
					send(t, stream, batchMessage(requests...))
				}
				wantTexts(t, stream, "touched 7, told 0")
				f := newest()
				asked := f.requests()
				want := []string{
					"session.TreeWrite", "session.TreeRead", "session.TreeAddition", "session.TreeRead", "clientport.removal",
					"[]session.Acknowledged",
				}
				if got := kinds(asked); !reflect.DeepEqual(got, want) {
					t.Fatalf("the node was asked %v, want %v", got, want)
				}
				key := func(i int) uint64 {
					return reflect.ValueOf(asked[i]).FieldByNameFunc(func(n string) bool { return n == "Key" || n == "key" }).Uint()
				}
				f.tell(
					events(60), events(61, 61), session.TreeMessage{Lost: true, Delivered: 62},
					session.TreeMessage{Answer: &session.TreeAnswer{Key: key(2), Stamp: 63, Lost: true}, Delivered: 63},
					session.TreeMessage{Answer: &session.TreeAnswer{Key: 999, Stamp: 64}, Delivered: 99}, // to nothing
					session.TreeMessage{Answer: &session.TreeAnswer{Key: key(3), Stamp: 64, Read: &tree.Answer{Kind: tree.GetEntry}}},
					events(65),
					session.TreeMessage{
						Answer: &session.TreeAnswer{Key: key(0), Stamp: 66, Wrote: &tree.Result{Stamp: 66, Void: true}}, Delivered: 66,
					},
					session.TreeMessage{Answer: &session.TreeAnswer{Key: key(1), Err: session.ErrMoved}},
					session.TreeMessage{Answer: &session.TreeAnswer{Key: key(4), Removed: 2}},
					session.TreeMessage{Delivered: 67},
				)
				wantTexts(t, stream, "events 3 from 60", "lost 62", "added 4 at 63", "read 5 at 64", "events 1 from 65",
					"written 2 at 66", "failed 3: REASON_SESSION_MOVED ", "removed 6: 2", "told 67")
				synctest.Wait()
				send(t, stream, touchMessage(8))
				wantTexts(t, stream, "touched 8, told 67")
				if got := s.Stats(); got.TreeWrites != 1 || got.TreeReads != 2 || got.TreeWatches != 1 || got.TreeEvents != 4 {
					t.Errorf("counted %+v", got)
				}
				if err := stream.CloseSend(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !f.isClosed() || service.ended() != 1 {
					t.Error("the connection was left open")
				}
			})
		})
	}
}

// V4: old events behind new ones come in a message of their own. A client refuses one in which stamps fall.
func TestEventsWhoseStampsFall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		newest := withTree(service, answeringTree)
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, addMessage(2, 0))
		wantTexts(t, stream, "added 2 at 72")
		newest().tell(events(80), events(75, 76), events(76), events(81), events(80))
		wantTexts(t, stream, "events 1 from 80", "events 4 from 75", "events 1 from 80")
		_ = stream.CloseSend()
	})
}

// A write that is larger than a message may be is refused in its turn, and its stream continues. The largest
// transaction is such a write: on the wire it needs some bytes more than its limit counts.
func TestWritesThatAreTooLarge(t *testing.T) {
	set := tree.Set{Path: "/a", Version: tree.Any}
	set.Data = make([]byte, tree.MaxRequest-tree.Transaction{Then: []tree.Op{set}}.Size())
	largest := tree.NumberedWrite{Session: 7, Attachment: 1, Number: 3}
	largest.Transaction.Then = []tree.Op{set}
	if err := largest.Check(); err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		newest := withTree(service, answeringTree)
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Write{
			Write: wire.WriteProto(2, largest),
		}}, writeMessage(3, 7, 3))
		wantTexts(t, stream, "failed 2: REASON_INVALID_ARGUMENT message", "written 3 at 327680")
		if asked := newest().requests(); !reflect.DeepEqual(kinds(asked), []string{
			"clientport.refusal", "session.TreeWrite",
		}) || asked[0].(refusal).number != 3 {
			t.Errorf("the node was asked %v", asked)
		}
		_ = stream.CloseSend()
	})
}

// Two requests with one seq are two requests.
func TestTreeRequestsWithOneSeq(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		withTree(service, answeringTree)
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, batchMessage(readMessage(2, 0), addMessage(2, 0), removeMessage(2)))
		wantTexts(t, stream, "read 2 at 71", "added 2 at 72", "removed 2: 1")
		_ = stream.CloseSend()
	})
}

// A wrong request that names a session is refused in its turn (X8 admission of writes), any other at once.
func TestRefusedTreeRequests(t *testing.T) {
	bad := writeMessage(2, 7, 3)
	bad.GetWrite().GetTransaction().GetThen()[0].GetDelete().Path = "a"
	unnumbered := writeMessage(2, 7, 0)
	badRead := readMessage(2, 7)
	badRead.GetRead().Read = nil
	loose := readMessage(2, 0)
	loose.GetRead().Read = nil
	badWatch, badRemoval := addMessage(2, 0), removeMessage(2)
	badWatch.GetAddWatches().Watches, badRemoval.GetRemoveWatches().Watches = nil, nil
	nobody := writeMessage(2, 0, 1)
	badAck := ackMessage(2, 7, 1)
	badAck.GetTouch().Acked = nil
	full := &session.LimitError{Name: "queued_bytes"}
	refuses := func(what any, why error) func(f *fakeTree, asked any) error {
		return func(f *fakeTree, asked any) error {
			if reflect.TypeOf(asked) == reflect.TypeOf(what) {
				return why
			}
			return answeringTree(f, asked)
		}
	}
	unserved := refuses(refusal{}, session.ErrMoved)
	for name, tt := range map[string]struct {
		message *holdfastv1.ClientMessage
		respond func(f *fakeTree, asked any) error
		want    string
		// inTurn is the number of the refusal that the node places, -1 for none.
		inTurn int
	}{
		"a write":               {bad, answeringTree, "failed 2: REASON_INVALID_ARGUMENT transaction.then[0].delete.path", 3},
		"a write of no session": {nobody, answeringTree, "failed 2: REASON_INVALID_ARGUMENT session_id", -1},
		"no number":             {unnumbered, answeringTree, "failed 2: REASON_INVALID_ARGUMENT number", 0},
		"of another connection": {bad, unserved, "failed 2: REASON_INVALID_ARGUMENT transaction.then[0].delete.path", -1},
		"a read in order":       {badRead, answeringTree, "failed 2: REASON_INVALID_ARGUMENT read", 0},
		"a read":                {loose, answeringTree, "failed 2: REASON_INVALID_ARGUMENT read", -1},
		"watches":               {badWatch, answeringTree, "failed 2: REASON_INVALID_ARGUMENT watches", -1},
		"removals":              {badRemoval, answeringTree, "failed 2: REASON_INVALID_ARGUMENT watches", -1},
		"acknowledgements":      {badAck, answeringTree, "failed 2: REASON_INVALID_ARGUMENT acked", -1},
		"no room": {
			writeMessage(2, 7, 3), refuses(session.TreeWrite{}, full), "failed 2: REASON_LIMIT queued_bytes", 3,
		},
		"not served": {
			writeMessage(2, 7, 3), refuses(session.TreeWrite{}, session.ErrMoved), "failed 2: REASON_SESSION_MOVED ", -1,
		},
		"an answer to another request": {
			readMessage(2, 0), func(f *fakeTree, asked any) error {
				f.answer(session.TreeAnswer{Key: asked.(session.TreeRead).Key, Wrote: &tree.Result{Stamp: 1}})
				return nil
			}, "failed 2: REASON_UNSPECIFIED ", -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := &fakeService{}
				newest := withTree(service, tt.respond)
				s, network, stop := clientPort(t, Config{}, service)
				defer stop()
				stream := connected(t, network)
				send(t, stream, tt.message)
				wantTexts(t, stream, tt.want)
				inTurn := -1
				if f := newest(); f != nil {
					for _, asked := range f.requests() {
						if r, ok := asked.(refusal); ok && r.id == 7 && inTurn < 0 && tt.inTurn >= 0 {
							inTurn = int(r.number)
						}
					}
				}
				if inTurn != tt.inTurn || s.Stats().Failed != 1 {
					t.Errorf("refused in its turn as number %d, want %d; %d failed", inTurn, tt.inTurn, s.Stats().Failed)
				}
				if err := stream.CloseSend(); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Recv(); err == nil {
					t.Error("a request is under way although it was answered")
				}
			})
		})
	}
}

// A stream finds out once who its client is, and only for the tree.
func TestPrincipalsOfAStream(t *testing.T) {
	for name, tt := range map[string]struct {
		sent string
		want string
		made bool
	}{
		"a password": {"me:secret", "read 2 at 71", true},
		"a bad one":  {"secret", "failed 2: REASON_INVALID_ARGUMENT " + wire.DigestKey, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := &fakeService{}
				newest := withTree(service, answeringTree)
				_, network, stop := clientPort(t, Config{}, service)
				defer stop()
				ctx := metadata.AppendToOutgoingContext(t.Context(), wire.DigestKey, tt.sent)
				stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(dialPipes(t, network)).Connect(ctx))
				if err != nil {
					t.Fatal(err)
				}
				send(t, stream, touchMessage(1))
				wantTexts(t, stream, "touched 1, told 0")
				if newest() != nil {
					t.Fatal("a stream without a message of the tree has its part")
				}
				send(t, stream, readMessage(2, 0))
				wantTexts(t, stream, tt.want)
				if f := newest(); (f != nil) != tt.made || f != nil && (len(f.principals) != 1 ||
					f.principals[0].Scheme != tree.Digest) {
					t.Errorf("the node vouches for %+v", f)
				}
				_ = stream.CloseSend()
			})
		})
	}
}

// A stream with watches is not idle, and a stream that used the tree once is.
func TestStreamsWithWatchesAreNotIdle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		withTree(service, answeringTree)
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		streams := make([]holdfastv1.SessionService_ConnectClient, 3)
		watchRead := readMessage(1, 0)
		watchRead.GetRead().Watch = true
		for i, m := range []*holdfastv1.ClientMessage{addMessage(1, 0), watchRead, readMessage(1, 0)} {
			var err error
			if streams[i], err = separate.Stream(c.Connect(t.Context())); err != nil {
				t.Fatal(err)
			}
			send(t, streams[i], m)
			receive(t, streams[i])
		}
		_ = porttest.Sleep(t.Context(), 3*idleStreamWait)
		synctest.Wait()
		if got := s.Stats(); got.Streams != 2 {
			t.Errorf("%d streams are left, want those with watches", got.Streams)
		}
		if _, err := streams[2].Recv(); limitNamed(err) != "idle_stream_timeout" {
			t.Errorf("an idle stream ended with %v", err)
		}
	})
}
