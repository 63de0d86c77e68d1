package watch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// plainWatch is a watch of the plain table.
type plainWatch struct {
	connection int
	path       string
	kind       tree.WatchKind
}

// hears says whether a watch matches an event: V1 and W-04, W-05 and X-23, literally.
func hears(path string, kind tree.WatchKind, e tree.Event) bool {
	under := e.Path == path || path == "/" || strings.HasPrefix(e.Path, path+"/")
	switch kind {
	case tree.WatchData:
		return e.Path == path && (e.Kind == tree.DataChanged || e.Kind == tree.EntryDeleted)
	case tree.WatchExists:
		return e.Path == path && e.Kind != tree.ChildrenChanged
	case tree.WatchChild:
		return e.Path == path && (e.Kind == tree.ChildrenChanged || e.Kind == tree.EntryDeleted)
	case tree.WatchPersistent:
		return e.Path == path
	case tree.WatchRecursive:
		return under && e.Kind != tree.ChildrenChanged
	default:
		panic("no such kind")
	}
}

// eventsOf returns the events that a change makes, and the access list that each is judged by.
func eventsOf(c tree.Change) (events []tree.Event, lists []*tree.ACL) {
	kind := map[tree.ChangeKind]tree.EventKind{
		tree.Created: tree.EntryCreated, tree.Deleted: tree.EntryDeleted, tree.DataSet: tree.DataChanged,
	}[c.Kind]
	events, lists = []tree.Event{{Stamp: c.Stamp, Kind: kind, Path: c.Path}}, []*tree.ACL{c.ACL}
	if c.Kind != tree.DataSet {
		parent := c.Path[:strings.LastIndex(c.Path, "/")]
		if parent == "" {
			parent = "/"
		}
		events = append(events, tree.Event{Stamp: c.Stamp, Kind: tree.ChildrenChanged, Path: parent})
		lists = append(lists, c.Parent)
	}
	return events, lists
}

// told is a delivered event with its connection.
type told struct {
	connection int
	event      tree.Event
	once       bool
}

func (a told) compare(b told) int {
	return strings.Compare(fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b))
}

var (
	somePaths = []string{"/", "/a", "/ab", "/a/b", "/a/b/c", "/a/bc", "/x", "/x/y/z", "/x/y"}
	allKinds  = []tree.WatchKind{
		tree.WatchData, tree.WatchExists, tree.WatchChild, tree.WatchPersistent, tree.WatchRecursive,
	}
	joe      = []tree.Principal{{Scheme: tree.Digest, ID: "joe:x"}}
	openList = tree.Open()
	joesList = tree.ACL{{Permissions: tree.All, Scheme: tree.Digest, ID: "joe:x"}}
	nobodys  = tree.ACL{}
)

func one[T any](random *rand.Rand, of []T) T { return of[random.IntN(len(of))] }

// TestTableModel holds a table against a list of watches, over seeded histories of everything that a dispatcher does
// with it.
func TestTableModel(t *testing.T) {
	const limit, connections = 500, 6 // bytes of a connection: of four or five paths
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 2))
		table := watch.NewTable[int](limit, 10)
		handles := make([]*watch.Connection[int], connections)
		principals := make([][]tree.Principal, connections)
		for i := range handles {
			principals[i] = one(random, [][]tree.Principal{nil, joe})
			handles[i] = opens(table, i, principals[i])
		}
		var plain []plainWatch
		bytes := func(connection int, with string) (n int) { // each path counts once
			paths := map[string]bool{with: true}
			for _, w := range plain {
				if w.connection == connection {
					paths[w.path] = true
				}
			}
			for path := range paths {
				n += 96 + len(path)
			}
			return n
		}
		index := uint64(10)
		for range 120 {
			i := random.IntN(connections)
			switch random.IntN(10) {
			case 0, 1, 2, 3, 4:
				w := plainWatch{i, one(random, somePaths), one(random, allKinds)}
				err := table.Add(handles[i], w.path, w.kind)
				limited := (*session.LimitError)(nil)
				switch {
				case slices.Contains(plain, w):
					if err != nil {
						t.Fatalf("seed %d: a watch that there is: %v", seed, err)
					}
				case bytes(i, w.path) > limit:
					if !errors.As(err, &limited) || limited.Name != "watch_bytes_per_connection" {
						t.Fatalf("seed %d: %d bytes: %v", seed, bytes(i, w.path), err)
					}
				default:
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					plain = append(plain, w)
				}
			case 5:
				path, kinds := one(random, somePaths), watch.Kinds(random.IntN(32))
				var want watch.Kinds
				plain = slices.DeleteFunc(plain, func(w plainWatch) bool {
					gone := w.connection == i && w.path == path && watch.Of(w.kind)&kinds != 0
					if gone {
						want |= watch.Of(w.kind)
					}
					return gone
				})
				if has := table.Has(handles[i], path, kinds); has != want {
					t.Fatalf("seed %d: has %b, want %b", seed, has, want)
				}
				if removed := table.Remove(handles[i], path, kinds); removed != want {
					t.Fatalf("seed %d: removed %b, want %b", seed, removed, want)
				}
			case 6:
				if random.IntN(4) > 0 {
					break
				}
				table.Close(handles[i])
				table.Close(handles[i])
				if err := table.Add(handles[i], "/a", tree.WatchData); !errors.Is(err, session.ErrClosed) {
					t.Fatalf("seed %d: a watch of a closed connection: %v", seed, err)
				}
				plain = slices.DeleteFunc(plain, func(w plainWatch) bool { return w.connection == i })
				handles[i] = opens(table, i, principals[i])
			default:
				c := tree.Change{
					Stamp: tree.StampAt(index+1, 1), Kind: tree.ChangeKind(1 + random.IntN(3)), Path: one(random, somePaths[1:]),
					ACL: one(random, []*tree.ACL{&openList, &openList, &joesList, &nobodys}),
				}
				if c.Kind != tree.DataSet {
					c.Parent = one(random, []*tree.ACL{&openList, &openList, &joesList})
				}
				if random.IntN(8) == 0 { // not after the dispatcher's root
					c.Stamp = watch.End(index)
				}
				var got, want []told
				table.Fire(&c, func(to *watch.Connection[int], e watch.Event) {
					got = append(got, told{to.Owner, e.Event, e.Once})
				})
				if c.Stamp.Index() > index {
					plain, want = fire(plain, c, principals)
				}
				slices.SortFunc(got, told.compare)
				slices.SortFunc(want, told.compare)
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: %+v: told %+v, want %+v", seed, c, got, want)
				}
				index++
				table.Advance(index)
			}
			if table.Watches() != len(plain) {
				t.Fatalf("seed %d: %d watches, want %d", seed, table.Watches(), len(plain))
			}
		}
		paths := map[string]bool{}
		for _, w := range plain {
			paths[w.path] = true
		}
		if table.Paths() != len(paths) {
			t.Fatalf("seed %d: %d paths, want %d", seed, table.Paths(), len(paths))
		}
		for _, c := range handles {
			table.Close(c)
		}
		if table.Watches() != 0 || table.Paths() != 0 {
			t.Fatalf("seed %d: %d watches on %d paths of no connection", seed, table.Watches(), table.Paths())
		}
	}
}

// fire returns the watches that are left after a change, and the delivered events.
func fire(plain []plainWatch, c tree.Change, principals [][]tree.Principal) (left []plainWatch, want []told) {
	events, lists := eventsOf(c)
	for i, e := range events {
		for connection, p := range principals {
			if !lists[i].Grants(tree.Read, p) {
				continue
			}
			matched, once := false, false
			plain = slices.DeleteFunc(plain, func(w plainWatch) bool {
				if w.connection != connection || !hears(w.path, w.kind, e) {
					return false
				}
				matched = true
				once = once || w.kind.OneShot()
				return w.kind.OneShot()
			})
			if matched {
				want = append(want, told{connection, e, once})
			}
		}
	}
	return plain, want
}

// TestTableRefusesBadWatches names what is wrong.
func TestTableRefusesBadWatches(t *testing.T) {
	table := watch.NewTable[int](watch.MaxConnectionBytes, 0)
	c := opens(table, 0, nil)
	if err := table.Add(c, "a", tree.WatchData); !errors.Is(err, tree.ErrPath) {
		t.Errorf("path without a slash: %v", err)
	}
	field := (*session.FieldError)(nil)
	for _, kind := range []tree.WatchKind{0, 6, 255} {
		if err := table.Add(c, "/a", kind); !errors.As(err, &field) || field.Field != "kind" {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	if c.Watches() != 0 {
		t.Errorf("%d watches", c.Watches())
	}
}

// TestKindsOfWatcherTypes: the types of ZooKeeper's removeWatches (N-22).
func TestKindsOfWatcherTypes(t *testing.T) {
	for watcherType, want := range map[int32]watch.Kinds{
		1: watch.Of(tree.WatchChild), 2: watch.Of(tree.WatchData, tree.WatchExists), 3: watch.All,
		4: watch.Of(tree.WatchPersistent), 5: watch.Of(tree.WatchRecursive), 0: 0, 6: 0, -1: 0,
	} {
		if got, ok := watch.OfWatcherType(watcherType); got != want || ok != (want != 0) {
			t.Errorf("type %d: %b, %v", watcherType, got, ok)
		}
	}
}

// TestManyWatches grows and shrinks the table's indexes: ten thousand connections and paths, and none at the end.
func TestManyWatches(t *testing.T) {
	table := watch.NewTable[int](watch.MaxConnectionBytes, 0)
	random := rand.New(rand.NewPCG(1, 1))
	var connections []*watch.Connection[int]
	for i := range 2000 {
		connections = append(connections, opens(table, i, nil))
	}
	type pair struct{ connection, path int }
	have := map[pair]bool{}
	for range 60_000 {
		p := pair{random.IntN(len(connections)), random.IntN(10_000)}
		if path := fmt.Sprintf("/p/%d", p.path); have[p] {
			if table.Remove(connections[p.connection], path, watch.All) == 0 {
				t.Fatalf("%v is not there", p)
			}
			delete(have, p)
		} else {
			if err := table.Add(connections[p.connection], path, tree.WatchPersistent); err != nil {
				t.Fatal(err)
			}
			have[p] = true
		}
	}
	for i := range 10_000 {
		got := 0
		table.Fire(&tree.Change{Stamp: tree.StampAt(1, 1), Kind: tree.DataSet, Path: fmt.Sprintf("/p/%d", i), ACL: &openList},
			func(to *watch.Connection[int], _ watch.Event) {
				if !have[pair{to.Owner, i}] {
					t.Fatalf("connection %d does not watch %d", to.Owner, i)
				}
				got++
			})
		for k := range have {
			if k.path == i {
				got--
				delete(have, k)
			}
		}
		if got != 0 {
			t.Fatalf("path %d: %d more than there are", i, got)
		}
		if i == 30 { // the rest takes long, and is the same
			break
		}
	}
	for _, c := range connections {
		table.Close(c)
	}
	if table.Watches() != 0 || table.Paths() != 0 {
		t.Errorf("%d watches on %d paths are left", table.Watches(), table.Paths())
	}
}
