//go:build e2e

package zk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"holdfast/zk/jute"
)

// step is one request of a script, or what is done to a client's connection.
type step struct {
	client int
	op     jute.Op
	// again drops the connection and resumes the session.
	again bool
	// body makes the record; zxid is the newest that the client has seen.
	body func(zxid int64) []byte
	// of are the operations of a multi or a multiRead.
	of []jute.Op
	// path is what the request is about, if that is one entry.
	path string
	// watches are the lists of a setWatches.
	watches [][]string
	// closes are the paths, or prefixes of them, that the request gives access lists which are not open to all.
	closes []string
	text   string
}

// author writes scripts. What it has written and what came of it decide what it writes next.
type author struct {
	*rand.Rand
	clients int
	// made are the paths that creates were answered with.
	made []string
	// watched are the kinds of watches that a client has ever had on a path: scripts mix no two of them, because
	// ZooKeeper 3.8 keeps one kind per client and path.
	watched map[string]string
}

// may notes that a client watches a path, and reports whether it may.
func (a *author) may(client int, path, kind string) bool {
	if a.watched == nil {
		a.watched = map[string]string{}
	}
	key := fmt.Sprint(client, path)
	had := a.watched[key]
	if had == "" {
		a.watched[key] = kind
	}
	return had == "" || had == kind
}

// names of entries: few, so that requests meet.
func (a *author) path() string {
	if len(a.made) > 0 && a.IntN(3) == 0 {
		return a.made[a.IntN(len(a.made))]
	}
	var b strings.Builder
	for range 1 + a.IntN(3) {
		b.WriteString("/" + string("abc"[a.IntN(3)]))
	}
	return b.String()
}

// strange returns at times a path that is none, or one of ZooKeeper's own.
func (a *author) strange() string {
	if a.IntN(25) > 0 {
		return a.path()
	}
	all := []string{
		"", "a", "/a/", "//a", "/a//b", "/a/../b", "/a/./b", "/", "/zookeeper", "/a\u0000b", "/a\u0001b", "/\ufff0",
	}
	return all[a.IntN(len(all))]
}

func (a *author) data() []byte {
	switch a.IntN(5) {
	case 0:
		return nil
	case 1:
		return []byte{}
	default:
		return fmt.Append(nil, a.IntN(1000))
	}
}

func (a *author) version() int32 {
	return []int32{-1, -1, -1, 0, 0, 1, 2, 3, -2, 7}[a.IntN(10)]
}

// acl appends an access list. It reports whether that is open to all.
func (a *author) acl(e *jute.Encoder) (isOpen bool) {
	open := jute.ACL{Perms: 31, Scheme: "world", ID: "anyone"}
	all := [][]jute.ACL{
		{open},
		{open},
		{open},
		{open},
		{open},
		{open},
		{{Perms: 31, Scheme: "auth"}},
		{{Perms: 1, Scheme: "world", ID: "anyone"}, {Perms: 31, Scheme: "digest", ID: "a:0Nh3ULBWzhoVoqqnGGlSYchcqEo="}},
		{{Perms: 13, Scheme: "world", ID: "anyone"}, {Perms: 18, Scheme: "ip", ID: "127.0.0.0/8"}},
		{open, open},
		{},
		{{Perms: 31, Scheme: "nobody", ID: "x"}},
		{{Perms: 31, Scheme: "world", ID: "somebody"}},
		{{Perms: 31, Scheme: "ip", ID: "10.0.0.300"}},
		{{Perms: 31, Scheme: "digest", ID: "short"}},
		{{Perms: 0, Scheme: "world", ID: "anyone"}},
		{{Perms: 63, Scheme: "world", ID: "anyone"}},
	}
	at := a.IntN(len(all))
	if a.IntN(2) == 0 {
		at = 0
	}
	e.ACLs(all[at])
	return slices.Contains(all[at], open)
}

// kinds are the operations of scripts, as often as they stand here.
var kinds = []jute.Op{
	jute.Create, jute.Create, jute.Create, jute.Create, jute.Create2, jute.Create2, jute.Create2, jute.CreateContainer,
	jute.CreateTTL, jute.Delete, jute.Delete, jute.Delete, jute.Delete, jute.SetData, jute.SetData, jute.SetData,
	jute.Exists, jute.Exists, jute.Exists, jute.GetData, jute.GetData, jute.GetData, jute.GetACL, jute.SetACL,
	jute.GetChildren, jute.GetChildren, jute.GetChildren2, jute.GetChildren2, jute.Sync, jute.Multi, jute.Multi,
	jute.Multi, jute.MultiRead, jute.AddWatch, jute.AddWatch, jute.RemoveWatches, jute.CheckWatches, jute.SetWatches,
	jute.SetWatches2, jute.GetEphemerals, jute.GetChildrenNumber, jute.WhoAmI, jute.Auth, jute.CloseSession, jute.Ping,
	jute.Reconfig,
}

// next returns the next step.
func (a *author) next() step {
	s := step{client: a.IntN(a.clients)}
	if a.IntN(40) == 0 {
		s.again, s.text = true, "drops its connection and resumes its session"
		return s
	}
	s.op = kinds[a.IntN(len(kinds))]
	if s.op == jute.CloseSession && a.IntN(3) > 0 {
		s.op = jute.Ping
	}
	var e jute.Encoder
	s.text = s.op.String() + " " + a.record(&e, &s)
	if s.body == nil {
		s.body = func(int64) []byte { return e.Bytes() }
	}
	return s
}

// record appends the record of a step, and returns what stands in it.
func (a *author) record(e *jute.Encoder, s *step) string {
	path := a.strange()
	s.path = path
	switch s.op { //nolint:exhaustive // the others may stand in a multi
	case jute.Sync, jute.GetACL, jute.GetEphemerals, jute.GetChildrenNumber:
		e.String(path)
		return path
	case jute.AddWatch:
		mode := int32(a.IntN(3)) // 2 is none
		if mode < 2 && !a.may(s.client, path, fmt.Sprint("mode ", mode)) {
			mode = 2
		}
		e.String(path)
		e.Int(mode)
		return fmt.Sprintf("%q mode %d", path, mode)
	case jute.RemoveWatches, jute.CheckWatches:
		kind := 1 + int32(a.IntN(3)) // those that ZooKeeper 3.8 has
		if had := a.watched[fmt.Sprint(s.client, path)]; had != "" && had != once {
			kind = jute.AnyWatcher
		}
		e.String(path)
		e.Int(kind)
		return fmt.Sprintf("%q type %d", path, kind)
	case jute.SetWatches, jute.SetWatches2:
		return a.watches(s)
	case jute.Multi, jute.MultiRead:
		return a.multi(e, s)
	case jute.Auth:
		scheme := []string{"digest", "digest", "digest", "ip"}[a.IntN(4)]
		credentials := []string{"a:b", "c", "super:test"}[min(a.IntN(12), 2)*a.IntN(2)]
		e.Int(0)
		e.String(scheme)
		e.Buffer([]byte(credentials))
		return scheme + " " + credentials
	case jute.Reconfig:
		e.String("")
		e.String("")
		e.String("")
		e.Long(-1)
		return ""
	case jute.WhoAmI, jute.CloseSession, jute.Ping:
		return ""
	default:
		return a.one(e, s, s.op, path)
	}
}

// one appends the record of a read or a write that may stand in a multi.
func (a *author) one(e *jute.Encoder, s *step, op jute.Op, path string) string {
	e.String(path)
	switch op { //nolint:exhaustive // reads have one record
	case jute.Create, jute.Create2, jute.CreateContainer, jute.CreateTTL:
		data, flags := a.data(), int32(a.IntN(4))
		switch {
		case op == jute.CreateContainer:
			flags = 4
		case op == jute.CreateTTL:
			flags = 5 + int32(a.IntN(2))
		case a.IntN(40) == 0:
			flags = 9
		}
		e.Buffer(data)
		before := len(e.Bytes())
		if !a.acl(e) {
			s.closes = append(s.closes, path)
		}
		list := e.Bytes()[before:]
		e.Int(flags)
		if op == jute.CreateTTL {
			e.Long([]int64{100_000, 100_000, 0, -5}[a.IntN(4)])
		}
		return fmt.Sprintf("%q data %q acl %q flags %d", path, data, list, flags)
	case jute.SetData:
		data, version := a.data(), a.version()
		e.Buffer(data)
		e.Int(version)
		return fmt.Sprintf("%q data %q version %d", path, data, version)
	case jute.SetACL:
		before := len(e.Bytes())
		if !a.acl(e) {
			s.closes = append(s.closes, path)
		}
		list := e.Bytes()[before:]
		version := a.version()
		e.Int(version)
		return fmt.Sprintf("%q acl %q version %d", path, list, version)
	case jute.Delete, jute.Check:
		version := a.version()
		e.Int(version)
		return fmt.Sprintf("%q version %d", path, version)
	default:
		watch := a.IntN(2) == 0 && (s.op == jute.MultiRead || a.may(s.client, path, once))
		e.Bool(watch)
		return fmt.Sprintf("%q watch %v", path, watch)
	}
}

// once is the kind of all one-shot watches.
const once = "once"

// element returns the path of an operation of a multi.
func (a *author) element(of jute.Op) string {
	path := a.strange()
	if path == "" && of == jute.MultiRead {
		return "a"
	}
	return path
}

func (a *author) multi(e *jute.Encoder, s *step) string {
	ops := []jute.Op{
		jute.Create, jute.Create2, jute.Delete, jute.SetData, jute.Check, jute.CreateContainer, jute.CreateTTL,
	}
	if s.op == jute.MultiRead {
		ops = []jute.Op{jute.GetData, jute.GetChildren}
	}
	var text []string
	for range a.IntN(5) {
		op := ops[a.IntN(len(ops))]
		s.of = append(s.of, op)
		e.MultiHeader(jute.MultiHeader{Op: op, Err: -1})
		text = append(text, op.String()+" "+a.one(e, s, op, a.element(s.op)))
	}
	e.MultiEnd()
	return "[" + strings.Join(text, "; ") + "]"
}

func (a *author) watches(s *step) string {
	lists := make([][]string, 3)
	if s.op == jute.SetWatches2 {
		lists = make([][]string, 5)
	}
	for i := range lists {
		for range a.IntN(3) {
			kind := once
			if i > 2 {
				kind = fmt.Sprint("mode ", i-3)
			}
			if path := a.path(); a.may(s.client, path, kind) && !slices.Contains(lists[i], path) {
				lists[i] = append(lists[i], path)
			}
		}
	}
	s.body = func(zxid int64) []byte {
		var e jute.Encoder
		e.Long(zxid)
		for _, list := range lists {
			e.Strings(list)
		}
		return e.Bytes()
	}
	s.watches = lists
	return fmt.Sprintf("%q", lists)
}
