package zk_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/session"
)

var open = zookeeper.WorldACL(zookeeper.PermAll)

func must[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func refused(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// TestEntries: each call of the library that is about entries, with the answers and codes of ZooKeeper.
func TestEntries(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second)
		path := must[string](t)
		if got := path(z.Create("/a", []byte("one"), 0, open)); got != "/a" {
			t.Errorf("created %q", got)
		}
		_, err := z.Create("/a", nil, 0, open)
		refused(t, err, zookeeper.ErrNodeExists)
		_, err = z.Create("/b/c", nil, 0, open)
		refused(t, err, zookeeper.ErrNoNode)
		_, err = z.Create("/b", nil, 0, nil)
		refused(t, err, zookeeper.ErrInvalidACL)
		if got := path(z.Create("/a/s-", nil, zookeeper.FlagSequence, open)); got != "/a/s-0000000000" {
			t.Errorf("the first sequential child is %q", got)
		}
		if got := path(z.Create("/a/", nil, zookeeper.FlagEphemeral|zookeeper.FlagSequence, open)); got != "/a/0000000001" {
			t.Errorf("a number alone is %q", got)
		}
		_, err = z.Create("/a/0000000001/x", nil, 0, open)
		refused(t, err, zookeeper.ErrNoChildrenForEphemerals)

		data, stat, err := z.Get("/a")
		if err != nil || string(data) != "one" || stat.Version != 0 || stat.NumChildren != 2 || stat.Cversion != 2 ||
			stat.DataLength != 3 || stat.EphemeralOwner != 0 || stat.Czxid != stat.Mzxid || stat.Pzxid <= stat.Czxid {
			t.Errorf("Get: %q %+v %v", data, stat, err)
		}
		_, _, err = z.Get("/none")
		refused(t, err, zookeeper.ErrNoNode)
		if there, _, failed := z.Exists("/none"); there || failed != nil {
			t.Errorf("Exists: %v %v", there, failed)
		}
		changed := must[*zookeeper.Stat](t)(z.Set("/a", []byte("two"), 0))
		if changed.Version != 1 || changed.Mzxid <= stat.Mzxid {
			t.Errorf("Set: %+v", changed)
		}
		_, err = z.Set("/a", nil, 0)
		refused(t, err, zookeeper.ErrBadVersion)
		names, _, err := z.Children("/a")
		slices.Sort(names)
		if err != nil || !slices.Equal(names, []string{"0000000001", "s-0000000000"}) {
			t.Errorf("Children: %q %v", names, err)
		}
		refused(t, z.Delete("/a", -1), zookeeper.ErrNotEmpty)
		refused(t, z.Delete("/a/s-0000000000", 7), zookeeper.ErrBadVersion)
		if err := z.Delete("/a/s-0000000000", 0); err != nil {
			t.Error(err)
		}
		if got := path(z.Sync("/a")); got != "/a" {
			t.Errorf("Sync: %q", got)
		}
		owner := uint64(must[*zookeeper.Stat](t)(statOf(z, "/a/0000000001")).EphemeralOwner)
		if id := session.ID(z.SessionID()); uint64(id) != owner {
			t.Errorf("the owner is %#x, the session %v", owner, id)
		}
	})
}

func statOf(z *zookeeper.Conn, path string) (*zookeeper.Stat, error) {
	_, stat, err := z.Exists(path)
	return stat, err
}

// TestMulti: all or nothing, with a code for each operation.
func TestMulti(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second)
		done, err := z.Multi(
			&zookeeper.CreateRequest{Path: "/m", Data: []byte("x"), Acl: open},
			&zookeeper.CheckVersionRequest{Path: "/m", Version: 0},
			&zookeeper.SetDataRequest{Path: "/m", Data: []byte("y"), Version: 0},
			&zookeeper.CreateRequest{Path: "/m/n", Acl: open},
			&zookeeper.DeleteRequest{Path: "/m/n", Version: -1},
		)
		if err != nil || len(done) != 5 || done[0].String != "/m" || done[2].Stat.Version != 1 {
			t.Fatalf("%+v %v", done, err)
		}
		done, err = z.Multi(
			&zookeeper.CreateRequest{Path: "/m/o", Acl: open},
			&zookeeper.CheckVersionRequest{Path: "/m", Version: 0},
			&zookeeper.DeleteRequest{Path: "/m", Version: -1},
		)
		if err == nil || len(done) != 3 || done[0].Error != nil || !errors.Is(done[1].Error, zookeeper.ErrBadVersion) ||
			done[2].Error == nil {
			t.Errorf("%+v %v", done, err)
		}
		if there, _, _ := z.Exists("/m/o"); there {
			t.Error("a part of a refused multi took effect")
		}
		for _, one := range []struct {
			why string
			of  []any
			at  int
			as  error
		}{
			{"the state's refusal comes first", []any{
				&zookeeper.DeleteRequest{Path: "/none", Version: -1}, &zookeeper.CreateRequest{Path: "/m/o"},
			}, 0, zookeeper.ErrNoNode},
			{"the bad access list comes first", []any{
				&zookeeper.CreateRequest{Path: "/m/o"}, &zookeeper.DeleteRequest{Path: "/none", Version: -1},
			}, 0, zookeeper.ErrInvalidACL},
			{"the bad access list comes behind what holds", []any{
				&zookeeper.DeleteRequest{Path: "/m", Version: -1}, &zookeeper.CreateRequest{Path: "/m"},
			}, 1, zookeeper.ErrInvalidACL},
			{"no entry has the version -2", []any{
				&zookeeper.CheckVersionRequest{Path: "/m", Version: -2}, &zookeeper.CreateRequest{Path: "/m/o"},
			}, 0, zookeeper.ErrBadVersion},
		} {
			done, err := z.Multi(one.of...)
			if err == nil || len(done) != 2 || !errors.Is(done[one.at].Error, one.as) {
				t.Errorf("%s: %+v %v", one.why, done, err)
			}
		}
		if there, _, _ := z.Exists("/m"); !there {
			t.Error("a multi with a bad access list took effect")
		}
	})
}

// TestManyChildren: a list of more than a page is whole.
func TestManyChildren(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second)
		must[string](t)(z.Create("/many", nil, 0, open))
		const many = 2_500
		for i := 0; i < many; i += 100 {
			ops := make([]any, 100)
			for j := range ops {
				ops[j] = &zookeeper.CreateRequest{Path: "/many/c-", Acl: open, Flags: zookeeper.FlagSequence}
			}
			if _, err := z.Multi(ops...); err != nil {
				t.Fatal(err)
			}
		}
		names, stat, err := z.Children("/many")
		if err != nil || len(names) != many || int(stat.NumChildren) != many {
			t.Fatalf("%d names, %+v, %v", len(names), stat, err)
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != many {
			t.Error("a name is there twice")
		}
	})
}

// TestAccess: digests, who may do what, and that a wrong scheme ends the connection.
func TestAccess(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second)
		if err := z.AddAuth("digest", []byte("ann:secret")); err != nil {
			t.Fatal(err)
		}
		must[string](t)(z.Create("/hers", []byte("x"), 0, zookeeper.DigestACL(zookeeper.PermAll, "ann", "secret")))
		must[string](t)(z.Create("/auth", nil, 0, zookeeper.AuthACL(zookeeper.PermRead)))
		acl, _, err := z.GetACL("/auth")
		if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || !strings.HasPrefix(acl[0].ID, "ann:") {
			t.Errorf("auth became %+v %v", acl, err)
		}
		other, _ := dial(t, c, "other", 10*time.Second)
		_, _, err = other.Get("/hers")
		refused(t, err, zookeeper.ErrNoAuth)
		if there, stat, err := other.Exists("/hers"); !there || err != nil || stat.DataLength != 1 {
			t.Errorf("exists needs no permission: %v %+v %v", there, stat, err)
		}
		if err := other.AddAuth("digest", []byte("super:test")); err != nil {
			t.Fatal(err)
		}
		if data, _, err := other.Get("/hers"); err != nil || string(data) != "x" {
			t.Errorf("super: %q %v", data, err)
		}
		refused(t, other.AddAuth("nonsense", nil), zookeeper.ErrAuthFailed)
	})
}

// TestDigestsWithoutPassword: a name alone identifies the client, with the id that ZooKeeper 3.8 gives it. Without a
// name the client is anonymous.
func TestDigestsWithoutPassword(t *testing.T) {
	const id = "user:Et6pb+wgWTVmq3VpLJlJWWgzrck="
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second)
		if err := z.AddAuth("digest", []byte("user")); err != nil {
			t.Fatal(err)
		}
		must[string](t)(z.Create("/hers", []byte("x"), 0, zookeeper.AuthACL(zookeeper.PermAll)))
		if acl, _, err := z.GetACL("/hers"); err != nil || len(acl) != 1 || acl[0].ID != id {
			t.Errorf("the list is %+v %v, want the id %s", acl, err, id)
		}
		if data, _, err := z.Get("/hers"); err != nil || string(data) != "x" {
			t.Errorf("read %q %v", data, err)
		}
		other, _ := dial(t, c, "other", 10*time.Second)
		must[string](t)(other.Sync("/"))
		if err := other.AddAuth("digest", []byte("user:")); err != nil { // an empty password is another one
			t.Fatal(err)
		}
		_, _, err := other.Get("/hers")
		refused(t, err, zookeeper.ErrNoAuth)
		for _, nameless := range []string{":password", ":", ""} {
			nobody, _ := dial(t, c, "nobody"+nameless, 10*time.Second)
			refused(t, nobody.AddAuth("digest", []byte(nameless)), zookeeper.ErrAuthFailed)
		}
	})
}

// TestWatches: each kind of one-shot watch, before the answer that shows the change (W-09).
func TestWatches(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n2:7404")
		w, _ := dial(t, c, "w", 10*time.Second, "n3:7404")
		must[string](t)(z.Create("/w", []byte("0"), 0, open))
		must[string](t)(w.Sync("/"))
		_, _, data, err := w.GetW("/w")
		_, _, children, err2 := w.ChildrenW("/w")
		_, _, exists, err3 := w.ExistsW("/w/new")
		if failed := errors.Join(err, err2, err3); failed != nil {
			t.Fatal(failed)
		}
		must[string](t)(z.Create("/w/new", nil, 0, open))
		must[*zookeeper.Stat](t)(z.Set("/w", []byte("1"), -1))
		for _, one := range []struct {
			on   <-chan zookeeper.Event
			want zookeeper.EventType
			path string
		}{
			{exists, zookeeper.EventNodeCreated, "/w/new"},
			{children, zookeeper.EventNodeChildrenChanged, "/w"},
			{data, zookeeper.EventNodeDataChanged, "/w"},
		} {
			if e := <-one.on; e.Type != one.want || e.Path != one.path {
				t.Errorf("%+v, want %v of %s", e, one.want, one.path)
			}
		}
	})
}

// TestWatchesOverAReconnect: a client that moves to another node receives the changes that it missed, and keeps its
// session.
func TestWatchesOverAReconnect(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n2:7404")
		w, events := dial(t, c, "w", 10*time.Second, "n3:7404", "n1:7404")
		await(t, events, zookeeper.StateHasSession)
		id := w.SessionID()
		must[string](t)(w.Create("/mine", nil, zookeeper.FlagEphemeral, open))
		must[string](t)(z.Create("/w", []byte("0"), 0, open))
		must[string](t)(w.Sync("/"))
		_, _, data, err := w.GetW("/w")
		if err != nil {
			t.Fatal(err)
		}
		apart(c, "w", "n3")
		must[*zookeeper.Stat](t)(z.Set("/w", []byte("1"), -1))
		if e := <-data; e.Type != zookeeper.EventNodeDataChanged {
			t.Errorf("%+v", e)
		}
		if w.SessionID() != id {
			t.Error("the session is another one")
		}
		if there, _, err := z.Exists("/mine"); !there || err != nil {
			t.Errorf("its ephemeral: %v %v", there, err)
		}
	})
}

// TestExpirySeen: a client that was cut off for too long learns that its session has expired, and its ephemeral is
// gone.
func TestExpirySeen(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second)
		w, events := dial(t, c, "w", 5*time.Second)
		await(t, events, zookeeper.StateHasSession)
		must[string](t)(w.Create("/mine", nil, zookeeper.FlagEphemeral, open))
		_, _, gone, err := z.ExistsW("/mine")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c.Names {
			apart(c, "w", n)
		}
		if e := <-gone; e.Type != zookeeper.EventNodeDeleted {
			t.Errorf("%+v", e)
		}
		for _, n := range c.Names {
			together(c, "w", n)
		}
		await(t, events, zookeeper.StateExpired)
	})
}

// TestDisconnectedBeforeExpired: whatever a node sends that is cut off from the others, its client gives it up before
// the session can expire (Z5 disconnected before expired).
func TestDisconnectedBeforeExpired(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n2:7404")
		w, events := dial(t, c, "w", 6*time.Second, "n3:7404")
		await(t, events, zookeeper.StateHasSession)
		must[string](t)(w.Create("/mine", nil, zookeeper.FlagEphemeral, open))
		must[string](t)(z.Sync("/"))
		there, _, gone, err := z.ExistsW("/mine")
		if err != nil || !there {
			t.Fatal(there, err)
		}
		for _, n := range []string{"n1", "n2"} {
			apart(c, "n3", n)
		}
		await(t, events, zookeeper.StateDisconnected)
		told := time.Now()
		if e := <-gone; e.Type != zookeeper.EventNodeDeleted {
			t.Errorf("%+v", e)
		}
		if time.Since(told) <= 0 {
			t.Error("the client was told after its session had expired")
		}
	})
}

// TestOneSessionForZooKeeperAndSDK: the session of a ZooKeeper client is a session for the SDK, and both see one tree.
func TestOneSessionForZooKeeperAndSDK(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 12*time.Second)
		found, err := sdk(t, c, "sdk").Get(t.Context(), session.ID(z.SessionID()))
		if err != nil || found.Session.Timeout != 14*time.Second {
			t.Errorf("%+v %v: want a timeout of 7/6 of what was asked", found, err)
		}
		must[string](t)(z.Create("/shared", []byte("zk"), 0, open))
		s := c.Session(sdk(t, c, "sdk2"), 10*time.Second)
		if e, err := s.Tree().Get(t.Context(), "/shared"); err != nil || string(e.Data) != "zk" {
			t.Errorf("%+v %v", e, err)
		}
	})
}
