package check

import (
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// Verbs of [history.Use].
const (
	// ExpectTurn: from now on each client makes one more call of the recipe at the path. LastTurn: the client has made it.
	ExpectTurn = "expects a turn"
	LastTurn   = "has had its last turn"

	// Put: an item was put into a queue. Finish: it was finished, with the token of its claim.
	Put    = "put"
	Finish = "finish"
	// Do: the job of a key is done, by this call or by another.
	Do = "do"
	// Add: Number was added to a counter, which then is Sum. Read: it was read and is Sum, not less than all earlier
	// answers.
	Add  = "add"
	Read = "read"
	// Join: a member joined its group, with its data in Data. View: a view was read. LastView: the view long after the
	// last fault, when members no longer came or went.
	Join     = "join"
	Set      = "set"
	View     = "view"
	LastView = "view at last"
	// Raise and Lower: a barrier was raised or lowered. Wait: a client waited at it.
	Raise = "raise"
	Lower = "lower"
	Wait  = "wait"
	// Enter: a client entered a double barrier for Number clients, with an entry whose data is Data. Leave: it left.
	Enter = "enter"
	Leave = "leave"
)

// uses judges recipes that grant nothing to work under, and what becomes of work, by the log of the tree.
type uses struct {
	judge

	past  *treeStates
	times times
}

// times are when entries of the log were applied first, and what the log clock was then, by index.
type times map[uint64]moment

type moment struct{ at, clock time.Duration }

func (c replays) times() times {
	all := make(times)
	for _, e := range c.committed {
		all[e.Index] = moment{e.At, e.Ledger.Clock}
	}
	return all
}

func (c uses) check() {
	by := make(map[string]map[string][]history.Event)
	for _, e := range c.used {
		if by[e.Use.Path] == nil {
			by[e.Use.Path] = make(map[string][]history.Event)
		}
		by[e.Use.Path][e.Use.Verb] = append(by[e.Use.Path][e.Use.Verb], e)
	}
	for _, path := range slices.Sorted(maps.Keys(by)) {
		used := by[path]
		c.lastTurns(path, used)
		c.queue(path, used)
		c.once(path, used)
		c.counter(path, used)
		c.group(path, used)
		c.barrier(path, used)
		c.doubleBarrier(path, used)
	}
	c.delays()
}

// lastTurns checks that each client makes its last call soon after the last fault.
func (c uses) lastTurns(path string, used map[string][]history.Event) {
	for _, pending := range used[ExpectTurn] {
		by := pending.At + c.bounds.Turn
		had := slices.ContainsFunc(used[LastTurn], func(e history.Event) bool {
			return e.Who == pending.Who && e.At >= pending.At && e.At <= by
		})
		if c.bounds.Turn == 0 || !had && by > c.finished {
			continue
		}
		c.checked("last turn")
		if !had {
			c.fail("liveness", 0, by, "%s has had no turn with %s within %v after the last fault", pending.Who, path,
				c.bounds.Turn)
		}
	}
}

// stay is the time of an entry of the tree, from its creation to its removal: 0 if it exists at the end.
type stay struct {
	path       string
	made, gone tree.Stamp
	// first is the created entry. datas are all data that it ever had.
	first *plain.Node
	datas []string
}

// stays returns all entries that ever existed at a path, in their order.
func (p *treeStates) stays(path string) (all []stay) {
	for _, v := range p.paths[path] {
		open := len(all) > 0 && all[len(all)-1].gone == 0
		if open && (v.node == nil || v.node.Stat.Created != all[len(all)-1].made) {
			all[len(all)-1].gone = v.from
			open = false
		}
		switch {
		case v.node == nil:
		case !open:
			all = append(all, stay{path: path, made: v.from, first: v.node, datas: []string{string(v.node.Data)}})
		default:
			last := &all[len(all)-1]
			last.datas = append(last.datas, string(v.node.Data))
		}
	}
	return all
}

// staysBelow returns all entries that there ever were just below a path.
func (p *treeStates) staysBelow(path string) (all []stay) {
	for _, one := range slices.Sorted(maps.Keys(p.below[path])) {
		all = append(all, p.stays(one)...)
	}
	return all
}

// existsAt reports whether the entry was there just before a stamp.
func (s stay) existsAt(before tree.Stamp) bool {
	return s.made < before && (s.gone == 0 || s.gone >= before)
}

// find returns the stay of an entry that was made with a token.
func find(all []stay, token tree.Stamp) (stay, bool) {
	n := slices.IndexFunc(all, func(s stay) bool { return s.made == token })
	if n < 0 {
		return stay{}, false
	}
	return all[n], true
}

// queue checks a queue against the log: an item that was put exists once, each claim is of an existing item, and when
// its worker finishes an item, one write removes item and claim.
func (c uses) queue(path string, used map[string][]history.Event) {
	if len(used[Put]) == 0 {
		return
	}
	items, claims := c.past.staysBelow(tree.Join(path, "items")), c.past.staysBelow(tree.Join(path, "claims"))
	made := make(map[string]int)
	for _, s := range items {
		made[s.datas[0]]++
		c.finishedBy(s, claims)
	}
	for _, e := range used[Put] {
		c.checked("queue put")
		if n := made[e.Use.Data]; n > 1 || n != 1 && e.Text == "" || n > 0 && e.Text != "" && !e.Unknown {
			c.misled(e, "queue", "the log has the item %d times", n)
		}
	}
	for _, e := range used[Finish] {
		c.finishes(e, items, claims)
	}
	for _, e := range c.contested {
		if e.Kind == history.Granted && e.Claim.Recipe == Item && strings.HasPrefix(e.Claim.Path, path+"/") {
			c.claimed(e, items, claims)
		}
	}
}

// finishes checks that a call that finishes an item removes it together with its claim.
func (c uses) finishes(e history.Event, items, claims []stay) {
	if e.Text != "" {
		return
	}
	c.checked("queue finish")
	claim, ok := find(claims, e.Use.Token)
	gone := slices.ContainsFunc(items, func(s stay) bool {
		return s.datas[0] == e.Use.Data && s.gone != 0 && s.gone == claim.gone
	})
	if !ok || !gone {
		c.misled(e, "queue", "the log does not remove the item with the claim")
	}
}

// finishedBy checks that a removed item was removed together with its claim.
func (c uses) finishedBy(item stay, claims []stay) {
	if item.gone == 0 {
		return
	}
	c.checked("queue gone")
	if !slices.ContainsFunc(claims, func(s stay) bool {
		return tree.Name(s.path) == tree.Name(item.path) && s.gone == item.gone && s.made > item.made
	}) {
		c.fail("queue", 0, c.times[item.gone.Index()].at, "%s %q is gone at %v, and no client that had claimed it "+
			"finished it", item.path, item.datas[0], item.gone)
	}
}

// claimed checks that a worker's answer names an item that it has: with the token, and the data, of the log.
func (c uses) claimed(e history.Event, items, claims []stay) {
	c.checked("queue claim")
	claim, ok := find(claims, e.Claim.Token)
	if !ok || claim.first.Stat.Owner != uint64(e.ID) {
		c.misled(e, "queue", "the log has no such claim")
		return
	}
	if !slices.ContainsFunc(items, func(s stay) bool {
		return tree.Name(s.path) == tree.Name(claim.path) && s.existsAt(claim.made) && s.datas[0] == e.Claim.Data
	}) {
		c.misled(e, "queue", "when it was claimed there was no such item")
	}
}

// once checks the job of a key against the log: its result is written once and stays, all callers get this result, and
// no caller works on a job that was reported as done.
func (c uses) once(path string, used map[string][]history.Event) {
	if len(used[Do]) == 0 {
		return
	}
	results := c.past.stays(tree.Join(path, "done"))
	c.checked("once")
	if len(results) > 1 || len(results) == 1 && (results[0].gone != 0 || len(results[0].datas) > 1) {
		c.fail("once", 0, c.times[results[len(results)-1].made.Index()].at, "%s has more than one result: %v", path, results)
	}
	reported := forever
	var first []history.Event
	for _, e := range used[Do] {
		if e.Text != "" {
			continue
		}
		reported = min(reported, e.At)
		c.checked("once reported")
		if len(results) == 0 || results[0].datas[0] != e.Use.Data {
			c.misled(e, "once", "the log has the results %v", results)
		}
		if e.Use.First {
			first = append(first, e)
		}
	}
	if len(first) > 1 {
		c.misled(first[1], "once", "another client was first too: %s", history.Line(first[0]))
	}
	c.workedOn(path, reported)
}

// workedOn checks that no caller starts to work on the job of a key after an answer that it is done.
func (c uses) workedOn(path string, reported time.Duration) {
	for _, e := range c.contested {
		if e.Kind != history.Works || e.Claim.Path != path {
			continue
		}
		c.checked("once work")
		if e.At > reported {
			c.misled(e, "once", "works on an item that was reported as done at %.4fs", reported.Seconds())
		}
	}
}
