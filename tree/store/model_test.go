package store_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/tree"
	"holdfast/tree/store"
)

// bag is a digest that keeps everything.
type bag map[string]int

func (b bag) Add(canonical []byte) { b[string(canonical)]++ }

func (b bag) Remove(canonical []byte) {
	if b[string(canonical)]--; b[string(canonical)] == 0 {
		delete(b, string(canonical))
	}
}

var paths = []string{
	"/", "/a", "/a/b", "/a/b/c", "/a-", "/ab", "/ab/x", "/c/d/e/f", "/zookeeper", "/zookeeper/quota",
	"/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats",
	"/zookeeper/quota/zookeeper_limits",
}

func drawTransaction(t *rapid.T) tree.Transaction {
	some := func(label string) (ops []tree.Op) {
		for range rapid.IntRange(0, 3).Draw(t, label) {
			ops = append(ops, drawOp(t))
		}
		return ops
	}
	x := tree.Transaction{Then: some("then"), Else: some("else")}
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		x.If = append(x.If, tree.Condition{
			Path:     rapid.SampledFrom(paths).Draw(t, "compared"),
			Property: tree.Property(rapid.IntRange(1, 6).Draw(t, "property")),
			Is:       tree.Comparison(rapid.IntRange(1, 4).Draw(t, "is")),
			Value:    rapid.Uint64Range(0, 2).Draw(t, "value"),
		})
	}
	return x
}

func drawOp(t *rapid.T) tree.Op {
	path := rapid.SampledFrom(paths).Draw(t, "path")
	version := rapid.Int64Range(-1, 2).Draw(t, "version")
	data := rapid.SampledFrom([][]byte{
		nil, {}, []byte("data"), []byte("count=1"), []byte("byteHardLimit=9"),
	}).Draw(t, "data")
	acl := rapid.SampledFrom([]tree.ACL{
		nil, nil, nil, tree.Open(),
		{},
		{{Permissions: tree.All, Scheme: tree.Digest, ID: "joe:x"}},
		{{Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone}},
	}).Draw(t, "acl")
	switch rapid.IntRange(0, 8).Draw(t, "op") {
	case 0:
		return tree.Set{Path: path, Data: data, Version: version}
	case 1:
		return tree.Delete{Path: path, Version: version}
	case 2:
		return tree.DeleteTree{Path: path}
	case 3:
		return tree.SetACL{Path: path, ACL: acl, Version: version}
	case 4:
		return tree.Check{Path: path, Version: version}
	default:
		kinds := []tree.Kind{tree.Persistent, tree.Ephemeral, tree.Container, tree.Expiring}
		c := tree.Create{
			Path: path, Data: data, Parents: rapid.Bool().Draw(t, "parents"), ACL: acl,
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Sequential: rapid.Bool().Draw(t, "sequential"),
		}
		switch c.Kind {
		case tree.Ephemeral:
			c.LockDelay = rapid.SampledFrom([]time.Duration{0, 0, 30 * time.Second}).Draw(t, "lock_delay")
		case tree.Expiring:
			c.TTL = time.Minute
		case tree.Persistent, tree.Container, tree.InLockDelay:
		}
		return c
	}
}

// drawQuota sets a quota, as an administrator does.
func drawQuota(t *rapid.T) tree.Transaction {
	path := rapid.SampledFrom([]string{"", "/a", "/a/b", "/zookeeper", "/nowhere"}).Draw(t, "quota")
	data := rapid.SampledFrom([]string{
		"", "count=2,bytes=-1", "count=-1,bytes=-1=;countHardLimit=3", "countHardLimit=6,byteHardLimit=",
		"byteHardLimit=12", "x",
	}).Draw(t, "limits")
	limits := tree.QuotaPath + path + "/zookeeper_limits"
	ops := [][]tree.Op{
		{tree.Create{Path: limits, Data: []byte(data), Kind: tree.Persistent, Parents: true}},
		{tree.Set{Path: limits, Data: []byte(data), Version: tree.Any}},
		{tree.Delete{Path: limits, Version: tree.Any}},
		{tree.Create{Path: tree.QuotaPath + path + "/zookeeper_stats", Kind: tree.Persistent, Parents: true}},
	}
	x := tree.Transaction{Then: rapid.SampledFrom(ops).Draw(t, "quota ops")}
	if rapid.Bool().Draw(t, "more") {
		x.Then = append(append([]tree.Op{drawOp(t)}, x.Then...), drawOp(t))
	}
	return x
}

func drawPrincipals(t *rapid.T) []tree.Principal {
	return rapid.SampledFrom([][]tree.Principal{
		nil, {{Scheme: tree.Digest, ID: "joe:x"}}, {{Scheme: tree.Super}},
	}).Draw(t, "principals")
}

func TestModel(t *testing.T) { rapid.Check(t, whateverHappens) }

// whateverHappens, the tree is what the plain one is, and its indexes, its quotas, its digest and its changes for
// watches fit that. What was frozen stays as it was.
func whateverHappens(t *rapid.T) {
	m := newModel(t)
	t.Repeat(map[string]func(*rapid.T){
		"transaction": func(t *rapid.T) { m.transaction(t, m.next(t), drawTransaction(t)) },
		"quota": func(t *rapid.T) {
			at := m.next(t)
			at.Principals = []tree.Principal{{Scheme: tree.Super}}
			m.transaction(t, at, drawQuota(t))
		},
		"end":    m.end,
		"reap":   m.reap,
		"freeze": func(*rapid.T) { m.frozen, m.was = m.has.Freeze(), m.want.clone() },
		"":       m.check,
	})
}

// model is a tree beside a plain one.
type model struct {
	at     store.At
	index  uint64
	digest bag
	has    *store.Tree
	want   *plain
	// frozen is an older root, and was is what it must be.
	frozen *store.Root
	was    *plain
}

func newModel(t *rapid.T) *model {
	limits := tree.Limits{Ephemerals: 3, Children: 4, Bytes: tree.DefaultBytes, OpenQuotas: rapid.Bool().Draw(t, "open quotas")}
	at := store.At{Stamp: tree.StampAt(1, 1), L: time.Second}
	m := &model{at: at, index: 1, digest: bag{}, want: newPlain(at, limits)}
	m.has = store.New(m.digest, limits, at)
	m.frozen, m.was = m.has.Freeze(), m.want.clone()
	return m
}

// next draws when, and for whom, something happens.
func (m *model) next(t *rapid.T) store.At {
	m.index++
	m.at.L += rapid.SampledFrom([]time.Duration{0, time.Second, 40 * time.Second}).Draw(t, "passed")
	return store.At{
		Stamp: tree.StampAt(m.index, 1), L: m.at.L, Session: rapid.Uint64Range(1, 2).Draw(t, "session"),
		Principals: drawPrincipals(t),
	}
}

func (m *model) transaction(t *rapid.T, at store.At, x tree.Transaction) {
	code, where, deeds := m.want.do(at, x)
	outcome, changes := m.has.Do(at, x)
	sameOutcome(t, x, outcome, code, where)
	told(t, changes, deeds, at)
}

func sameOutcome(t *rapid.T, x tree.Transaction, outcome tree.Outcome, code tree.Code, where int) {
	var got tree.Code
	if outcome.Refused != nil {
		got = outcome.Refused.Code
	}
	if got != code || code != 0 && outcome.At != where {
		t.Fatalf("%+v: %v at %d, want %v at %d", x, outcome.Refused, outcome.At, code, where)
	}
}

func (m *model) end(t *rapid.T) {
	at, end := m.next(t), m.has.CloseSession
	expired := rapid.Bool().Draw(t, "expired")
	if expired {
		end = m.has.ExpireSession
	}
	removed := m.want.end(at, at.Session, expired)
	if !rapid.Bool().Draw(t, "will") {
		ended, changes := end(at, at.Session, nil)
		if ended.Removed != len(removed) || ended.Will != nil || m.has.OwnedWeight(at.Session) != 0 {
			t.Fatalf("%+v, want %d removed; %d left", ended, len(removed), m.has.OwnedWeight(at.Session))
		}
		told(t, changes, removed, at)
		return
	}
	will := store.Will{Principals: drawPrincipals(t), Transaction: drawTransaction(t)}
	code, where, deeds := m.want.do(store.At{Stamp: at.Stamp, L: at.L, Principals: will.Principals}, will.Transaction)
	ended, changes := end(at, at.Session, &will)
	if ended.Removed != len(removed) || m.has.OwnedWeight(at.Session) != 0 {
		t.Fatalf("%+v, want %d removed; %d left", ended, len(removed), m.has.OwnedWeight(at.Session))
	}
	sameOutcome(t, will.Transaction, *ended.Will, code, where)
	told(t, changes, append(removed, deeds...), at)
}

func (m *model) reap(t *rapid.T) {
	at := m.next(t)
	var got []string
	for _, r := range m.has.Freeze().Due(at.L, 100) {
		stale := r
		stale.Modified++
		if reaped, _ := m.has.Reap(at, stale); reaped {
			t.Fatalf("reaped %v, which has changed since", stale)
		}
		if reaped, changes := m.has.Reap(at, r); reaped {
			told(t, changes, []string{"-" + r.Path}, at)
			got = append(got, r.Path)
		}
	}
	deeds := m.want.reap(at)
	slices.Sort(got)
	if !slices.Equal(got, deeds) {
		t.Fatalf("reaped %v, want %v", got, deeds)
	}
}

func (m *model) check(t *rapid.T) {
	same(t, &m.has.Root, m.want)
	same(t, m.frozen, m.was)
	readable(t, m.has.Freeze(), m.want)
	verified(t, m.has.Freeze(), m.digest)
	has := map[byte]int{}
	for one, n := range m.digest {
		has[one[0]] += n
	}
	if entries, quotas := len(m.want.nodes), len(m.want.quotas()); has['t'] != entries || has['q'] != quotas {
		t.Fatalf("the digest has %v, want %d entries and %d quotas", has, entries, quotas)
	}
}

// told checks what watches see.
func told(t *rapid.T, changes []tree.Change, deeds []string, at store.At) {
	var got []string
	for _, c := range changes {
		if c.Stamp != at.Stamp || c.ACL == nil || (c.Parent == nil) != (c.Kind == tree.DataSet) {
			t.Fatalf("told %+v at %v", c, at.Stamp)
		}
		got = append(got, map[tree.ChangeKind]string{tree.Created: "+", tree.Deleted: "-", tree.DataSet: "="}[c.Kind]+c.Path)
	}
	if !slices.Equal(got, deeds) {
		t.Fatalf("told %v, want %v", got, deeds)
	}
}

// same compares a tree with a plain one.
func same(t *rapid.T, has *store.Root, want *plain) {
	if has.Len() != len(want.nodes) {
		t.Fatalf("%d entries, want %d", has.Len(), len(want.nodes))
	}
	owned := map[uint64][]string{}
	for path, w := range want.nodes {
		n, ok := has.Get(path)
		names, data := want.childrenOf(path), want.shown(path)
		due := time.Duration(w.due) * time.Millisecond
		if len(names) > 0 {
			due = 0
		}
		wanted := tree.Stat{
			Created: w.created, Modified: w.modified, ChildrenModified: w.children, CreatedAt: n.Stat.CreatedAt,
			ModifiedAt: n.Stat.ModifiedAt, Version: w.version, ACLVersion: w.aclVersion,
			ChildrenVersion: 2*w.creates - int64(len(names)), Owner: w.owner, Bytes: len(data), Children: len(names),
			Kind: w.kind, Due: due,
		}
		if !ok || n.Stat != wanted || string(n.Data) != string(data) || (n.Data == nil) != (data == nil) {
			t.Fatalf("%s is %+v, want %+v", path, n, wanted)
		}
		var got []string
		has.Children(path, "", func(name string, _ store.Child) bool {
			got = append(got, name)
			return true
		})
		if !slices.Equal(got, names) {
			t.Fatalf("children of %s: %v, want %v", path, got, names)
		}
		if w.owner != 0 {
			owned[w.owner] = append(owned[w.owner], path)
		}
	}
	var quotas []store.Quota
	has.Quotas(func(q store.Quota) bool {
		quotas = append(quotas, q)
		return true
	})
	if !slices.Equal(quotas, want.quotas()) {
		t.Fatalf("quotas are %+v, want %+v", quotas, want.quotas())
	}
	for _, owner := range []uint64{1, 2} {
		var got []string
		has.Owned(owner, func(path string) bool {
			got = append(got, path)
			return true
		})
		slices.Sort(got)
		slices.Sort(owned[owner])
		if !slices.Equal(got, owned[owner]) {
			t.Fatalf("session %d owns %v, want %v", owner, got, owned[owner])
		}
	}
}
