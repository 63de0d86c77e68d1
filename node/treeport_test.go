package node

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client's own words, through the client port
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// treeAtPort is a client that speaks to one node through its client port.
type treeAtPort struct {
	holdfastv1.TreeServiceClient
	sessions holdfastv1.SessionServiceClient
	t        *testing.T
	stream   holdfastv1.SessionService_ConnectClient
	token    *holdfastv1.Token
}

// treeAtPort opens a stream with a session, of a client that authenticates with a password.
func (c *testCluster) treeAtPort(n *testNode, password string) *treeAtPort {
	c.t.Helper()
	conn, err := dial.Client(n.name+":7400", dial.Options{Dial: c.Host("client").Dial})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	x := &treeAtPort{
		TreeServiceClient: holdfastv1.NewTreeServiceClient(conn), sessions: holdfastv1.NewSessionServiceClient(conn), t: c.t,
	}
	if x.stream, err = separate.Stream(x.sessions.Connect(as(c.t.Context(), password))); err != nil {
		c.t.Fatal(err)
	}
	c.opens++
	x.say(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: &holdfastv1.Open{
		Seq: 1, Timeout: wire.PromiseProto(40 * time.Second), RequestId: append(make([]byte, 15), c.opens), Instance: 7,
	}}})
	x.token = x.hear().GetOpened().GetToken()
	return x
}

// as returns the context of a call by a client with a password.
func as(ctx context.Context, password string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, wire.DigestKey, password)
}

// say sends requests, which are a batch if there are several.
func (x *treeAtPort) say(all ...*holdfastv1.ClientMessage) {
	x.t.Helper()
	m := all[0]
	if len(all) > 1 {
		m = &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Batch{Batch: &holdfastv1.Batch{Requests: all}}}
	}
	if err := x.stream.Send(m); err != nil {
		x.t.Fatal(err)
	}
}

// hear returns the next answer or event.
func (x *treeAtPort) hear() *holdfastv1.ServerMessage {
	x.t.Helper()
	m, err := x.stream.Recv()
	if err != nil {
		x.t.Fatal(err)
	}
	return m
}

func (x *treeAtPort) write(seq, number uint64, ops ...tree.Op) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Write{Write: wire.WriteProto(seq,
		tree.NumberedWrite{
			Session: x.token.GetSessionId(), Number: number, Transaction: tree.Transaction{Then: ops},
		})}}
}

func (x *treeAtPort) read(seq uint64, q tree.Query) *holdfastv1.ClientMessage {
	q.Session = x.token.GetSessionId()
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Read{Read: wire.QueryProto(seq, q)}}
}

// TestTreeThroughThePort asks a follower's client port for everything that clients can ask of the tree, on a Connect
// stream and in calls.
func TestTreeThroughThePort(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := treeCluster(t, nil)
		defer c.stop()
		leads := c.leader(within)
		n := c.nodes[0]
		if n == leads {
			n = c.nodes[1]
		}
		x := c.treeAtPort(n, "me:secret")
		watched, err := x.Watch(as(t.Context(), "me:secret"), &holdfastv1.WatchRequest{
			Watches: []*holdfastv1.WatchSpec{{Path: "/a", Kind: holdfastv1.WatchKind_WATCH_KIND_RECURSIVE}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if m, recvErr := watched.Recv(); recvErr != nil || m.GetStarted().GetStamp() == 0 {
			t.Fatalf("a watch began with %v, %v", m, recvErr)
		}
		created := x.onTheStream()
		x.inCalls(created)
		if got, want := heard(t, watched, 2), []holdfastv1.EventKind{
			holdfastv1.EventKind_EVENT_KIND_CREATED, holdfastv1.EventKind_EVENT_KIND_DATA_CHANGED,
		}; !slices.Equal(got, want) {
			t.Errorf("a watch told %v, want %v", got, want)
		}
		x.denied()
		if got := n.ports.Stats().Client; got.TreeWrites < 4 || got.TreeReads < 8 || got.TreeWatches != 2 {
			t.Errorf("counted %+v", got)
		}
	})
}

// One client's requests at their bounds stop nobody: a version that the log cannot write is refused by its field, what
// comes behind it takes effect, and a refusal that shows a long path beyond ASCII keeps its stream and its reason.
func TestRequestsAtTheirBoundsThroughThePort(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := treeCluster(t, nil)
		defer c.stop()
		n := c.nodes[0]
		if n == c.leader(within) {
			n = c.nodes[1]
		}
		x, path := c.treeAtPort(n, "me:secret"), "/"+strings.Repeat("é", 100)
		x.say(
			x.write(2, 1, tree.Set{Path: "/", Version: math.MaxInt64}),
			x.write(3, 1, tree.Create{Path: "/a", Kind: tree.Persistent}),
			x.read(4, tree.Query{Kind: tree.GetEntry, Path: path}),
		)
		const field = "transaction.then[0].set.version"
		if got := x.hear().GetFailed(); got.GetSeq() != 2 || got.GetError().GetField() != field {
			t.Errorf("a version that the log cannot write: %v", got)
		}
		if got := x.hear().GetWritten(); got.GetSeq() != 3 || got.GetOutcome().GetRefused() != nil {
			t.Errorf("the write behind it: %v", got)
		}
		if got := x.hear().GetFailed(); got.GetSeq() != 4 || got.GetError().GetRefusal().GetPath() != path {
			t.Errorf("a read of a long path: %v", got)
		}
		_, err := x.Get(as(t.Context(), "me:secret"), &holdfastv1.GetRequest{Path: path})
		if err = wire.Domain(err); !errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			t.Errorf("a call for a long path: %v", err)
		}
	})
}

// heard returns the next n events of a watch.
func heard(t *testing.T, watched grpc.ServerStreamingClient[holdfastv1.WatchResponse], n int,
) (kinds []holdfastv1.EventKind) {
	t.Helper()
	for len(kinds) < n {
		m, err := watched.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.GetEvents().GetEvents() {
			kinds = append(kinds, e.GetKind())
		}
	}
	return kinds
}

// onTheStream writes, reads and watches on the stream, and returns the stamp of the entry's creation.
func (x *treeAtPort) onTheStream() (created uint64) {
	x.t.Helper()
	own := tree.ACL{{Permissions: tree.All, Scheme: tree.Auth}}
	x.say(
		x.write(2, 1, tree.Create{Path: "/a", Kind: tree.Ephemeral, Data: []byte("1"), ACL: own}),
		x.read(3, tree.Query{Kind: tree.GetEntry, Path: "/a", Watch: true}),
		x.write(4, 2, tree.Set{Path: "a", Version: tree.Any}),
		x.write(5, 2, tree.Set{Path: "/a", Data: []byte("2"), Version: tree.Any}),
		x.read(6, tree.Query{Kind: tree.GetEntry, Path: "/a"}),
	)
	w := x.hear().GetWritten()
	if created = w.GetStamp(); w.GetSeq() != 2 || w.GetOutcome().GetResults()[0].GetStat().GetCreated() != created {
		x.t.Fatalf("the create was answered with %v", w)
	}
	if r := x.hear().GetRead(); r.GetSeq() != 3 || string(r.GetGet().GetData()) != "1" || r.GetStamp() < created {
		x.t.Errorf("the first read was answered with %v", r)
	}
	if f := x.hear().GetFailed(); f.GetSeq() != 4 || f.GetError().GetField() != "transaction.then[0].set.path" {
		x.t.Errorf("a bad path was answered with %v", f)
	}
	e := x.hear().GetEvents().GetEvents()
	if w = x.hear().GetWritten(); w.GetSeq() != 5 || len(e) != 1 || e[0].GetStamp() != w.GetStamp() {
		x.t.Errorf("the change was answered with %v after the events %v", w, e)
	}
	if r := x.hear().GetRead(); r.GetSeq() != 6 || string(r.GetGet().GetData()) != "2" || r.GetStamp() < w.GetStamp() {
		x.t.Errorf("the last read was answered with %v", r)
	}
	x.say(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_AddWatches{AddWatches: wire.AdditionProto(7,
		tree.Addition{Watches: []tree.WatchSpec{{Path: "/b", Kind: tree.WatchPersistent}}})}})
	added := x.hear().GetWatchesAdded()
	x.say(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: &holdfastv1.Touch{
		Seq: 8, AckedIds: []uint64{x.token.GetSessionId()}, Acked: []uint64{2},
	}}})
	if told := x.hear().GetTouched().GetDelivered(); added.GetSeq() != 7 || told != added.GetStamp() {
		x.t.Errorf("a touch was told %d after %v", told, added)
	}
	return created
}

// inCalls asks what the stream has written, and goes on with its numbers.
func (x *treeAtPort) inCalls(created uint64) {
	x.t.Helper()
	ctx := as(x.t.Context(), "me:secret")
	numbers := func(n uint64) *holdfastv1.Numbering {
		return &holdfastv1.Numbering{Token: x.token, Number: n, Acked: 2}
	}
	got, err := x.Get(ctx, &holdfastv1.GetRequest{Path: "/a"})
	if err != nil || string(got.GetData()) != "2" {
		x.t.Errorf("Get: %v, %v", got, err)
	}
	exists, err := x.Exists(ctx, &holdfastv1.ExistsRequest{Path: "/none"})
	if err != nil || exists.GetStat() != nil || exists.GetStamp() < created {
		x.t.Errorf("Exists: %v, %v", exists, err)
	}
	made, err := x.Create(ctx, &holdfastv1.CreateRequest{
		Numbering: numbers(3), Create: &holdfastv1.Create{Path: "/p/q", Parents: true},
	})
	again, err2 := x.Create(ctx, &holdfastv1.CreateRequest{
		Numbering: numbers(3), Create: &holdfastv1.Create{Path: "/p/q", Parents: true},
	})
	if err != nil || err2 != nil || made.GetPath() != "/p/q" || again.GetStamp() != made.GetStamp() {
		x.t.Errorf("Create: %v, %v, and again %v, %v", made, err, again, err2)
	}
	list, err := x.List(ctx, &holdfastv1.ListRequest{
		Options: &holdfastv1.ReadOptions{Linearizable: true}, Listing: &holdfastv1.Listing{Path: "/p", WithStat: true},
	})
	if err != nil || len(list.GetChildren()) != 1 || list.GetChildren()[0].GetStat().GetCreated() != made.GetStamp() {
		x.t.Errorf("List: %v, %v", list, err)
	}
	_, err = x.Delete(ctx, &holdfastv1.DeleteRequest{Numbering: numbers(4), Delete: &holdfastv1.Delete{Path: "/p"}})
	if refused, ok := errors.AsType[*tree.WriteError](wire.Domain(err)); !ok || refused.Refused.Code != tree.NotEmpty {
		x.t.Errorf("Delete of a parent: %v", err)
	}
	_, err = x.Delete(ctx, &holdfastv1.DeleteRequest{Numbering: numbers(9), Delete: &holdfastv1.Delete{Path: "/p"}})
	if gap, ok := errors.AsType[*tree.GapError](wire.Domain(err)); !ok || gap.Expected != 5 {
		x.t.Errorf("a number too early: %v", err)
	}
	removed, err := x.DeleteTree(ctx, &holdfastv1.DeleteTreeRequest{
		Numbering: numbers(5), DeleteTree: &holdfastv1.DeleteTree{Path: "/p"},
	})
	if err != nil || removed.GetRemoved() != 2 {
		x.t.Errorf("DeleteTree: %v, %v", removed, err)
	}
	x.fences(ctx, created)
}

// fences asks about the entry that the stream has made.
func (x *treeAtPort) fences(ctx context.Context, created uint64) {
	x.t.Helper()
	for _, tt := range []struct {
		path  string
		token uint64
		want  bool
	}{{"/a", created, true}, {"/a", created + 1, false}, {"/none", created, false}} {
		holds, err := x.CheckFence(ctx, &holdfastv1.CheckFenceRequest{
			Fence: &holdfastv1.Fence{Path: tt.path, Token: tt.token},
		})
		if err != nil || holds.GetHolds() != tt.want {
			x.t.Errorf("CheckFence of %s at %d: %v, %v", tt.path, tt.token, holds, err)
		}
	}
	paths, err := x.GetEphemerals(x.t.Context(), &holdfastv1.GetEphemeralsRequest{
		Ephemerals: &holdfastv1.EphemeralsOf{SessionId: x.token.GetSessionId()},
	})
	if err != nil || len(paths.GetPaths()) != 1 || paths.GetPaths()[0] != "/a" {
		x.t.Errorf("GetEphemerals: %v, %v", paths, err)
	}
	sync, err := x.Sync(ctx, &holdfastv1.SyncRequest{Seen: created})
	if err != nil || sync.GetStamp() < created {
		x.t.Errorf("Sync: %v, %v", sync, err)
	}
}

// denied asks for the entry of the stream as another client.
func (x *treeAtPort) denied() {
	x.t.Helper()
	for name, ctx := range map[string]context.Context{
		"nobody": x.t.Context(), "another password": as(x.t.Context(), "me:guess"),
	} {
		_, err := x.Get(ctx, &holdfastv1.GetRequest{Path: "/a"})
		if refused, ok := errors.AsType[*tree.RefusedError](wire.Domain(err)); !ok || refused.Code != tree.NoPermission {
			x.t.Errorf("%s was answered with %v", name, err)
		}
	}
	list, err := x.GetACL(as(x.t.Context(), "me:secret"), &holdfastv1.GetACLRequest{Path: "/a"})
	me, digestErr := wire.DigestFrom("me:secret")
	if err != nil || digestErr != nil || list.GetAcl().GetGrants()[0].GetId() != me || list.GetInherited() {
		x.t.Errorf("GetACL: %v, %v", list, err)
	}
}
