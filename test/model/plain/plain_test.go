package plain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/test/model/plain"
	"holdfast/tree"
	"holdfast/tree/store"
)

// nothing is a digest that keeps nothing.
type nothing struct{}

func (nothing) Add([]byte)    {}
func (nothing) Remove([]byte) {}

// pair is a store and a plain tree with the same past.
type pair struct {
	store *store.Tree
	plain *plain.Tree
	at    store.At
}

var paths = []string{
	"/", "/a", "/a/b", "/a/b/c", "/b", "/b/x-", "/b/", "/zookeeper", "/zookeeper/quota/a/zookeeper_limits",
	"/zookeeper/quota/zookeeper_limits",
}

// lists are access lists of which some keep two of three clients from things, or all.
var lists = []tree.ACL{
	nil, tree.Open(),
	{},
	{{Permissions: tree.Read | tree.Admin, Scheme: tree.World, ID: tree.Anyone}},
	{{Permissions: tree.All &^ tree.DeleteChild, Scheme: tree.Digest, ID: "ann:1"}},
	{
		{Permissions: tree.All, Scheme: tree.Digest, ID: "bob:2"},
		{Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone},
	},
}

// clients are the principals of the requests. The last is Super.
var clients = [][]tree.Principal{
	nil,
	{{Scheme: tree.Digest, ID: "ann:1"}},
	{{Scheme: tree.Digest, ID: "bob:2"}, {Scheme: tree.IP, ID: "10.1.2.3"}},
	{{Scheme: tree.Super}},
}

func drawOp(t *rapid.T) tree.Op {
	path := rapid.SampledFrom(append(paths[:6:6], paths[8:]...)).Draw(t, "path")
	version := rapid.Int64Range(-1, 3).Draw(t, "version")
	data := []byte(rapid.SampledFrom([]string{"", "one", "other", "countHardLimit=3", "byteHardLimit=6", "count=no"}).
		Draw(t, "data"))
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0, 1:
		return tree.Set{Path: path, Data: data, Version: version}
	case 2:
		return tree.Delete{Path: path, Version: version}
	case 3:
		return tree.DeleteTree{Path: path}
	case 4:
		return tree.Check{Path: path, Version: version}
	case 5:
		return tree.SetACL{Path: path, ACL: drawList(t), Version: version}
	}
	kinds := []tree.Kind{tree.Persistent, tree.Ephemeral, tree.Container, tree.Expiring}
	c := tree.Create{
		Path: path, Data: data, Parents: rapid.Bool().Draw(t, "parents"),
		Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Sequential: rapid.Bool().Draw(t, "sequential"),
	}
	if rapid.IntRange(0, 4).Draw(t, "listed") == 0 {
		c.ACL = drawList(t)
	}
	switch c.Kind {
	case tree.Ephemeral:
		c.LockDelay = rapid.SampledFrom([]time.Duration{0, 20 * time.Second}).Draw(t, "lock_delay")
	case tree.Expiring:
		c.TTL = 30 * time.Second
	case tree.Persistent, tree.Container, tree.InLockDelay:
	}
	return c
}

func drawList(t *rapid.T) tree.ACL { return rapid.SampledFrom(lists).Draw(t, "list") }

func drawTransaction(t *rapid.T) (x tree.Transaction) {
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		x.If = append(x.If, tree.Condition{
			Path:     rapid.SampledFrom(paths[:5]).Draw(t, "if"),
			Property: tree.Property(rapid.IntRange(int(tree.Exists), int(tree.ChildCount)).Draw(t, "property")),
			Is:       tree.Comparison(rapid.IntRange(int(tree.Equal), int(tree.Greater)).Draw(t, "is")),
			Value:    rapid.Uint64Range(0, 3).Draw(t, "value"),
		})
	}
	for range rapid.IntRange(1, 4).Draw(t, "ops") {
		x.Then = append(x.Then, drawOp(t))
	}
	if rapid.Bool().Draw(t, "else") {
		x.Else = append(x.Else, drawOp(t))
	}
	return x
}

// next returns when the next thing happens.
func (p *pair) next(t *rapid.T) plain.At {
	p.at.Stamp = tree.StampAt(p.at.Stamp.Index()+1, 1)
	p.at.L += time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second
	p.at.Session = rapid.Uint64Range(1, 3).Draw(t, "session")
	p.at.Principals = rapid.SampledFrom(clients).Draw(t, "client")
	return plain.At{Stamp: p.at.Stamp, Clock: p.at.L, Session: p.at.Session, Principals: p.at.Principals}
}

func (p *pair) transaction(t *rapid.T) {
	at, x := p.next(t), drawTransaction(t)
	want, wantChanges := p.store.Do(p.at, x)
	got, changes := p.plain.Do(at, x)
	if (want.Refused == nil) != (got.Refused == nil) || want.Else != got.Else || want.At != got.At ||
		want.Refused != nil && want.Refused.Code != got.Refused.Code {
		t.Fatalf("%+v: outcome %+v (%v), want %+v (%v)", x, got, got.Refused, want, want.Refused)
	}
	for i := range want.Ops {
		untimed(&want.Ops[i].Stat)
	}
	if !slices.Equal(got.Ops, want.Ops) {
		t.Fatalf("%+v did\n%+v, want\n%+v", x, got.Ops, want.Ops)
	}
	same(t, changes, wantChanges)
}

func (p *pair) end(t *rapid.T) {
	at, expired := p.next(t), rapid.Bool().Draw(t, "expired")
	var will *store.Will
	var plainWill *plain.Will
	if rapid.Bool().Draw(t, "will") {
		x := drawTransaction(t)
		who := rapid.SampledFrom(clients).Draw(t, "testator")
		will, plainWill = &store.Will{Transaction: x, Principals: who}, &plain.Will{Transaction: x, Principals: who}
	}
	end := p.store.CloseSession
	if expired {
		end = p.store.ExpireSession
	}
	_, want := end(p.at, p.at.Session, will)
	same(t, p.plain.End(at, p.at.Session, expired, plainWill), want)
}

func (p *pair) reap(t *rapid.T) {
	at := p.next(t)
	// An entry may become due by the end of the last one below it.
	for all := p.store.Freeze().Due(p.at.L, 1000); len(all) > 0; all = p.store.Freeze().Due(p.at.L, 1000) {
		for _, due := range all {
			_, want := p.store.Reap(p.at, due)
			got, ok := p.plain.Reap(at, due.Path)
			if !ok {
				t.Fatalf("%s is due at %v", due.Path, p.at.L)
			}
			same(t, got, want)
		}
	}
	for _, path := range p.plain.Paths() {
		if _, ok := p.plain.Reap(at, path); ok {
			t.Fatalf("%s is not due at %v", path, p.at.L)
		}
	}
}

func untimed(s *tree.Stat) { s.CreatedAt, s.ModifiedAt = time.Time{}, time.Time{} }

func same(t *rapid.T, got, want []tree.Change) {
	t.Helper()
	for i := range want {
		want[i].ACL, want[i].Parent = nil, nil
	}
	if !slices.Equal(got, want) {
		t.Fatalf("changes %v, want %v", got, want)
	}
}

// TestPlain has both trees do the same, in two ways that share no code.
func TestPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := store.At{Stamp: tree.StampAt(1, 1)}
		limits := tree.DefaultLimits()
		limits.OpenQuotas = rapid.Bool().Draw(t, "open quotas")
		p := &pair{store: store.New(nothing{}, limits, at), plain: plain.New(at.Stamp), at: at}
		p.plain.OpenQuotas = limits.OpenQuotas
		t.Repeat(map[string]func(*rapid.T){
			"transaction": p.transaction, "transaction too": p.transaction, "end": p.end, "reap": p.reap,
			"": func(t *rapid.T) {
				for _, path := range p.plain.Paths() {
					n, _ := p.plain.Get(path)
					want, ok := p.store.Freeze().Get(path)
					untimed(&want.Stat)
					if !ok || n.Shown() != want.Stat || string(n.Data) != string(want.Data) {
						t.Fatalf("%s is\n%+v, want\n%+v", path, n.Shown(), fmt.Sprint(want.Stat))
					}
				}
			},
		})
	})
}
