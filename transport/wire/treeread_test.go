package wire

import (
	"strings"
	"testing"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/tree"
)

// treeQueries returns a query of each kind, with all its fields.
func treeQueries() []tree.Query {
	o := tree.ReadOptions{Seen: 9 << 16, AllowStale: true}
	strict := tree.ReadOptions{Seen: 9 << 16, Linearizable: true}
	return []tree.Query{
		{Kind: tree.GetEntry, Options: o, Path: "/a", Session: 7, Watch: true},
		{Kind: tree.GetStat, Options: strict, Path: "/a", Watch: true},
		{
			Kind: tree.ListChildren, Path: "/a", After: "b", PageSize: 9, Backward: true, WithData: true,
			WithStat: true, Watch: true,
		},
		{Kind: tree.ListEphemerals, Options: o, Path: "/a", After: "/a/b", PageSize: 7, Owner: 1 << 63},
		{Kind: tree.GetACL, Options: o, Path: "/"},
		{Kind: tree.CheckFence, Options: strict, Path: "/a", Token: 1 << 62},
		{Kind: tree.Sync, Options: strict, Session: 7},
	}
}

func TestTreeQueriesRoundTrip(t *testing.T) {
	for _, want := range treeQueries() {
		got, err := QueryFrom(overWire(t, QueryProto(5, want)))
		wantEqual(t, got, err, want)
	}
	got, err := QueryFrom(&holdfastv1.TreeRead{Read: &holdfastv1.TreeRead_List{List: &holdfastv1.Listing{Path: "/"}}})
	wantEqual(t, got, err, tree.Query{Kind: tree.ListChildren, Path: "/", PageSize: tree.DefaultPage})
}

func TestUnaryQueries(t *testing.T) {
	all := treeQueries()
	for i := range all {
		all[i].Session, all[i].Watch = 0, false
	}
	read := func(i int) *holdfastv1.TreeRead { return QueryProto(1, all[i]) }
	for i, request := range []any{
		&holdfastv1.GetRequest{Options: read(0).GetOptions(), Path: "/a"},
		&holdfastv1.ExistsRequest{Options: read(1).GetOptions(), Path: "/a"},
		&holdfastv1.ListRequest{Listing: read(2).GetList()},
		&holdfastv1.GetEphemeralsRequest{Options: read(3).GetOptions(), Ephemerals: read(3).GetEphemerals()},
		&holdfastv1.GetACLRequest{Options: read(4).GetOptions(), Path: "/"},
		&holdfastv1.CheckFenceRequest{Seen: 9 << 16, Fence: read(5).GetFence()},
		&holdfastv1.SyncRequest{Seen: 9 << 16},
	} {
		got, err := UnaryQueryFrom(request)
		wantEqual(t, got, err, all[i])
	}
	_, err := UnaryQueryFrom(&holdfastv1.SetRequest{})
	porttest.WantField(t, err, "read")
}

func TestTreeQueriesOutOfRange(t *testing.T) {
	for _, one := range []struct {
		field string
		query int
		spoil func(*holdfastv1.TreeRead)
	}{
		{"options.allow_stale", 0, func(p *holdfastv1.TreeRead) { p.Options.Linearizable = true }},
		{"options.allow_stale", 5, func(p *holdfastv1.TreeRead) { p.Options = &holdfastv1.ReadOptions{AllowStale: true} }},
		{"path", 0, func(p *holdfastv1.TreeRead) { p.Read = &holdfastv1.TreeRead_Get{Get: "a"} }},
		{"path", 1, func(p *holdfastv1.TreeRead) { p.Read = &holdfastv1.TreeRead_Exists{} }},
		{"path", 4, func(p *holdfastv1.TreeRead) { p.Read = &holdfastv1.TreeRead_Acl{Acl: "/."} }},
		{"listing.path", 2, func(p *holdfastv1.TreeRead) { p.GetList().Path = "" }},
		{"listing.after", 2, func(p *holdfastv1.TreeRead) { p.GetList().After = "b/c" }},
		{"listing.after", 2, func(p *holdfastv1.TreeRead) { p.GetList().After = "/" }},
		{"listing.page_size", 2, func(p *holdfastv1.TreeRead) { p.GetList().PageSize = 1001 }},
		{"ephemerals.session_id", 3, func(p *holdfastv1.TreeRead) { p.GetEphemerals().SessionId = 0 }},
		{"ephemerals.prefix", 3, func(p *holdfastv1.TreeRead) {
			p.GetEphemerals().Prefix = strings.Repeat("x", tree.MaxPath+1)
		}},
		{"ephemerals.after", 3, func(p *holdfastv1.TreeRead) { p.GetEphemerals().After = "b" }},
		{"ephemerals.page_size", 3, func(p *holdfastv1.TreeRead) { p.GetEphemerals().PageSize = 1 << 31 }},
		{"fence.path", 5, func(p *holdfastv1.TreeRead) { p.GetFence().Path = "" }},
		{"fence.token", 5, func(p *holdfastv1.TreeRead) { p.GetFence().Token = 0 }},
		{"sync", 6, func(p *holdfastv1.TreeRead) { p.Read = &holdfastv1.TreeRead_Sync{} }},
		{"watch", 4, func(p *holdfastv1.TreeRead) { p.Watch = true }},
		{"read", 6, func(p *holdfastv1.TreeRead) { p.Read = nil }},
	} {
		p := QueryProto(1, treeQueries()[one.query])
		one.spoil(p)
		_, err := QueryFrom(p)
		porttest.WantField(t, err, one.field)
	}
}

func TestTreeAnswersRoundTrip(t *testing.T) {
	stat := treeStat()
	for _, want := range []tree.Answer{
		{Kind: tree.GetEntry, Exists: true, Stat: stat, Data: []byte{}},
		{Kind: tree.GetEntry, Exists: true, Stat: stat},
		{Kind: tree.GetStat, Exists: true, Stat: stat},
		{Kind: tree.GetStat},
		{Kind: tree.ListChildren, Exists: true, Stat: stat, More: true, Children: []tree.Child{
			{Name: "a"}, {Name: "b", Hidden: true}, {Name: "c", Stat: stat, Data: []byte{}}, {Name: "d", Stat: stat},
		}},
		{Kind: tree.ListEphemerals, Paths: []string{"/a", "/b"}, More: true},
		{Kind: tree.GetACL, Exists: true, Stat: stat, ACL: tree.ACL{{Permissions: 1, Scheme: "x509", ID: "CN=a"}}},
		{Kind: tree.GetACL, Exists: true, Stat: stat, ACL: tree.ACL{}, Inherited: true},
		{Kind: tree.CheckFence, Holds: true},
		{Kind: tree.Sync},
	} {
		want.Stamp = 9 << 16
		got, err := TreeAnswerFrom(overWire(t, TreeAnswerProto(5, want)))
		wantEqual(t, got, err, want)
	}
	// An id from a ZooKeeper client may be no UTF-8, which protocol buffers could not carry.
	odd := tree.Answer{
		Kind: tree.GetACL, Exists: true, Stamp: 1, Stat: stat, ACL: tree.ACL{{Permissions: 1, Scheme: "x509", ID: "\xff"}},
	}
	if got, err := TreeAnswerFrom(overWire(t, TreeAnswerProto(5, odd))); err != nil || got.ACL[0].ID != "\uFFFD" {
		t.Errorf("got %+v, %v", got, err)
	}
	bad := &holdfastv1.Stat{}
	for field, p := range map[string]*holdfastv1.TreeAnswer{
		"answer.stamp": {},
		"answer.kind":  {Stamp: 1},
		"answer.stat":  {Stamp: 1, Answer: &holdfastv1.TreeAnswer_Get{Get: &holdfastv1.GetResponse{}}},
		"answer.null": {Stamp: 1, Answer: &holdfastv1.TreeAnswer_Get{
			Get: &holdfastv1.GetResponse{Null: true, Data: []byte{1}},
		}},
		"answer.stat.created": {Stamp: 1, Answer: &holdfastv1.TreeAnswer_Exists{
			Exists: &holdfastv1.ExistsResponse{Stat: bad},
		}},
		"answer.children[0].name": {Stamp: 1, Answer: &holdfastv1.TreeAnswer_List{
			List: &holdfastv1.ListResponse{Stat: StatProto(stat), Children: []*holdfastv1.Child{{}}},
		}},
		"answer.children[0].stat.created": {Stamp: 1, Answer: &holdfastv1.TreeAnswer_List{
			List: &holdfastv1.ListResponse{Stat: StatProto(stat), Children: []*holdfastv1.Child{{Name: "a", Stat: bad}}},
		}},
	} {
		_, err := TreeAnswerFrom(p)
		porttest.WantField(t, err, field)
	}
}

func TestWatchesRoundTrip(t *testing.T) {
	a := tree.Addition{
		Watches: []tree.WatchSpec{
			{Path: "/", Kind: tree.WatchData},
			{Path: "/a", Kind: tree.WatchExists},
			{Path: "/a", Kind: tree.WatchChild},
			{Path: "/a", Kind: tree.WatchPersistent},
			{Path: "/a", Kind: tree.WatchRecursive},
		},
		Since: 7, Options: tree.ReadOptions{Seen: 9, AllowStale: true},
	}
	got, err := AdditionFrom(overWire(t, AdditionProto(5, a)))
	wantEqual(t, got, err, a)
	every := append(a.Watches, tree.WatchSpec{Path: "/b"})
	removed, err := RemovalFrom(overWire(t, RemovalProto(5, every)))
	wantEqual(t, removed, err, every)
	events := []tree.Event{
		{Stamp: 1, Kind: tree.EntryCreated, Path: "/a"},
		{Stamp: 1, Kind: tree.ChildrenChanged, Path: "/"},
		{Stamp: 2, Kind: tree.DataChanged, Path: "/a"},
		{Stamp: 1 << 62, Kind: tree.EntryDeleted, Path: "/a"},
	}
	told, err := EventsFrom(overWire(t, EventsProto(events)))
	wantEqual(t, told, err, events)
	touch := &holdfastv1.Touch{AckedIds: []uint64{7, 8}, Acked: []uint64{1, 2}}
	acked, err := AckedFrom(touch)
	wantEqual(t, acked, err, []session.Acknowledged{{Session: 7, UpTo: 1}, {Session: 8, UpTo: 2}})

	_, err = AdditionFrom(&holdfastv1.WatchRequest{})
	porttest.WantField(t, err, "watches")
	_, err = AdditionFrom(AdditionProto(1, tree.Addition{Watches: make([]tree.WatchSpec, tree.MaxWatches+1)}))
	porttest.WantField(t, err, "watches")
	_, err = AdditionFrom(AdditionProto(1, tree.Addition{Watches: []tree.WatchSpec{{Kind: tree.WatchData}}}))
	porttest.WantField(t, err, "watches[0].path")
	_, err = AdditionFrom(AdditionProto(1, tree.Addition{Watches: every}))
	porttest.WantField(t, err, "watches[5].kind")
	_, err = RemovalFrom(RemovalProto(1, []tree.WatchSpec{{Path: "/", Kind: 6}}))
	porttest.WantField(t, err, "watches[0].kind")
	_, err = EventsFrom(nil)
	porttest.WantField(t, err, "events")
	for field, spoil := range map[string]func(*holdfastv1.Event){
		"events[2].stamp": func(p *holdfastv1.Event) { p.Stamp = 0 },
		"events[2].kind":  func(p *holdfastv1.Event) { p.Kind = 5 },
		"events[2].path":  func(p *holdfastv1.Event) { p.Path = "" },
	} {
		p := EventsProto(events)
		spoil(p.GetEvents()[2])
		_, err = EventsFrom(p)
		porttest.WantField(t, err, field)
	}
	_, err = AckedFrom(&holdfastv1.Touch{AckedIds: []uint64{0}, Acked: []uint64{1}})
	porttest.WantField(t, err, "acked_ids")
	_, err = AckedFrom(&holdfastv1.Touch{Acked: []uint64{1}})
	porttest.WantField(t, err, "acked")
}
