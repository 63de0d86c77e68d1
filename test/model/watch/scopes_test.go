package watch

// shapesOf returns the set of these kinds of log entries.
func shapesOf(all ...shape) (set uint8) {
	for _, s := range all {
		set |= 1 << s
	}
	return set
}

// scope returns a scope with room for everything, which f narrows.
func scope(name string, f func(*Scope)) *Scope {
	s := &Scope{
		Name: name, Entries: 2, Shapes: shapesOf(makeA), Watches: 1 << watchA, Ring: 8, Feed: 3, Replay: maxReplay,
		Ask: watches,
	}
	s.Most[Begun] = 1
	f(s)
	return s
}

// Scopes for one kind of trouble each.
var (
	calm   = scope("calm", func(s *Scope) { s.Entries = 3 })
	losing = scope("losing", func(s *Scope) { s.Most[Disconnects] = 1 })
	again  = scope("losing twice", func(s *Scope) { s.Most[Disconnects] = 2 })
	pairs  = scope("pairs", func(s *Scope) {
		s.Shapes, s.Watches, s.Most[Disconnects] = shapesOf(both), 1<<watchAll, 1
	})
	twins = scope("twins", func(s *Scope) {
		s.Watches, s.Most[Begun], s.Most[Disconnects] = 1<<watchAll|1<<watchA, 2, 1
	})
	oneByOne = scope("twins, one by one", func(s *Scope) {
		s.Watches, s.Most[Begun], s.Most[Disconnects], s.Ask = 1<<watchAll|1<<watchA, 2, 1, 1
	})
	endLosing = scope("ending, reading, losing", func(s *Scope) {
		s.Watches, s.Most[Dropped], s.Most[Read], s.Most[Disconnects] = 1<<watchA|1<<watchData|1<<watchExists, 1, 1, 1
		s.Entries, s.There = 1, 1<<pathA
	})
	slowTwins = scope("slow twins", func(s *Scope) {
		s.Watches, s.Most[Begun], s.Entries, s.Feed = 1<<watchAll|1<<watchA, 2, 3, 1
	})
	quietReads = scope("short ring, quiet, reading", func(s *Scope) {
		s.Shapes, s.Ring, s.Most[Read] = shapesOf(makeB), 1, 1
		s.Watches = 1<<watchA | 1<<watchData
	})
	slow = scope("slow", func(s *Scope) {
		s.Entries, s.Feed = 3, 1
	})
	slowLosing = scope("slow, losing", func(s *Scope) {
		s.Entries, s.Feed, s.Most[Disconnects] = 3, 1, 1
	})
	short = scope("short ring", func(s *Scope) {
		s.Ring, s.Most[Disconnects] = 1, 1
	})
	quiet = scope("short ring, quiet", func(s *Scope) {
		s.Shapes, s.Ring = shapesOf(makeA, makeB), 1
	})
	restoring   = scope("restoring", func(s *Scope) { s.Most[Restores] = 1 })
	restoreLose = scope("restoring, losing", func(s *Scope) { s.Most[Restores], s.Most[Disconnects] = 1, 1 })
	slowOne     = scope("slow twins, one by one", func(s *Scope) {
		s.Watches, s.Most[Begun], s.Most[Disconnects], s.Ask = 1<<watchAll|1<<watchA, 2, 1, 1
		s.Entries, s.Feed = 3, 1
	})
	restarting = scope("restarting", func(s *Scope) { s.Most[Restarts] = 1 })
	reading    = scope("reading", func(s *Scope) {
		s.Watches, s.Most[Begun], s.Most[Read] = 1<<watchData|1<<watchExists, 0, 1
		s.Shapes = shapesOf(makeA, setA)
	})
	readLosing = scope("reading, losing", func(s *Scope) {
		s.Watches, s.Most[Begun], s.Most[Read], s.Most[Disconnects] = 1<<watchData|1<<watchExists, 0, 1, 1
		s.Shapes = shapesOf(makeA, setA)
	})
	readBoth = scope("reading, watching", func(s *Scope) {
		s.Watches, s.Most[Read] = 1<<watchA|1<<watchData|1<<watchExists, 1
		s.Shapes = shapesOf(makeA, setA)
	})
	readAll = scope("reading, watching, losing", func(s *Scope) {
		s.Watches, s.Most[Read], s.Most[Disconnects] = 1<<watchA|1<<watchData|1<<watchExists, 1, 1
	})
	readSlow = scope("reading, slow, losing", func(s *Scope) {
		s.Watches, s.Most[Read], s.Most[Disconnects] = 1<<watchAll|1<<watchChild, 1, 1
		s.Entries, s.Feed = 3, 0
	})
	readSkip = scope("reading, restoring", func(s *Scope) {
		s.Watches, s.Most[Read], s.Most[Restores] = 1<<watchData|1<<watchExists, 1, 1
	})
	skipLose = scope("reading, watching, restoring, losing", func(s *Scope) {
		s.Watches, s.Most[Read], s.Most[Restores], s.Most[Disconnects] = 1<<watchA|1<<watchData|1<<watchExists, 1, 1, 1
	})
	besides = scope("reading beside", func(s *Scope) {
		s.Watches, s.Most[Besides] = 1<<watchA|1<<watchData|1<<watchExists, 1
		s.Entries = 2
	})
	writing = scope("writing", func(s *Scope) {
		s.Shapes = shapesOf(ownA)
	})
	writeLosing = scope("writing, losing", func(s *Scope) {
		s.Shapes, s.Most[Disconnects] = shapesOf(ownA, makeB), 1
		s.Watches = 1 << watchAll
	})
	writeReads = scope("writing, reading, losing", func(s *Scope) {
		s.Shapes, s.Watches, s.Most = shapesOf(ownA), 1<<watchData|1<<watchExists, Counts{Read: 1, Disconnects: 1}
	})
	writeApart = scope("writing, two commands", func(s *Scope) {
		s.Shapes, s.Watches = shapesOf(ownA, apart), 1<<watchAll
	})
	writeSkip = scope("writing, restoring", func(s *Scope) {
		s.Shapes, s.Most[Restores] = shapesOf(ownA), 1
	})
)

// leftOut is a search without some rules: the scope, and what breaks in it. breaks is 0 if nothing was found.
type leftOut struct {
	without Without
	breaks  Invariants
	scope   *Scope
}

// leftOuts has every rule alone, in the order of docs/tree.md, and pairs of rules that cover each other.
var leftOuts = []leftOut{
	{Rules(D2), 0, writeApart},
	{Rules(G1Ring), I11, calm},
	{Rules(G1Root), I11, calm},
	{Rules(G1Answer), I13, writing},
	{Rules(G2Root), I13, readBoth},
	{Rules(G2Register), I11, reading},
	{Rules(G2Place), I11, reading},
	{Rules(G4Write), I13, writeReads},
	{Rules(G4Read), I11, readLosing},
	{Rules(G4Alive), I11, losing},
	{Rules(G5), I18, writeLosing},
	{Rules(N4Seen), I13, writeReads},
	{Rules(I13Reads), I13, readAll},
	{Rules(I13Writes), I13, writeLosing},
	{Rules(I13Lost), I13, slowOne},
	{Rules(I13Top), 0, slowOne},
	{Rules(V2Root), I11, reading},
	{Rules(V2Once), 0, reading},
	{Rules(V2Each), I11, twins},
	{Rules(V3Restore), I11, restoreLose},
	{Rules(V3Process), I11, restarting},
	{Rules(V4Since), I11, pairs},
	{Rules(V4Index), I11, losing},
	{Rules(V4Start), I11, short},
	{Rules(V4Last), I11, pairs},
	{Rules(V4Below), I11, pairs},
	{Rules(V4Former), I11, again},
	{Rules(V4Tree), I11, readLosing},
	{Rules(V4Had), I11, losing},
	{Rules(V4Sorts), 0, oneByOne},
	{Rules(V4Mixed), I11, oneByOne},
	{Rules(V4Beside), I11, besides},
	{Rules(V4First), I11, twins},
	{Rules(V4Ended), I11, endLosing},
	{Rules(V4Together), I11, oneByOne},
	{Rules(V5), Told, quiet},
	{Rules(V5Answers), Told, quietReads},
	{Rules(V6Lost), I11, slow},
	{Rules(V6Stay), I11, readSlow},
	{Rules(V6Parted), I11, readSlow},
	{Rules(V6Answer), I11, slowTwins},
	{Rules(V6Low), 0, slowLosing},
	{Rules(V6Sent), 0, slowLosing},
	{Rules(V6Skip), I11, restoring},
	{Rules(V6Once), I11, readSkip},
	{Rules(V6First), I11, skipLose},
	{Rules(W4Kept), I18, writeSkip},
}

// completes are the scopes that are seen whole in every run, wides those that are not.
var (
	completes = []*Scope{
		calm, losing, again, pairs, twins, oneByOne, endLosing, slowTwins, quietReads, slow, slowLosing, short, quiet,
		restoring, restoreLose, restarting, reading, readLosing, readBoth, readAll, readSkip, skipLose, besides, writing,
		writeLosing, writeReads, writeApart, writeSkip,
	}
	wides = []*Scope{
		{
			Name: "everything", Entries: 4, Shapes: 1<<shapes - 1, Watches: 1<<watches - 1, Ring: 2, Feed: 2, Replay: 2, Ask: 1,
			Most: Counts{Disconnects: 3, Restores: 1, Restarts: 1, Begun: 3, Dropped: 1, Read: 2, Besides: 1},
		},
		{
			Name: "lasting watches", Entries: 4, Shapes: shapesOf(makeA, makeB, both, twice), Watches: 1<<watchAll | 1<<watchA,
			Ring: 3, Feed: 2, Replay: 3, Ask: 1, Most: Counts{Disconnects: 3, Begun: 3, Dropped: 1},
		},
		{
			Name: "one-shots", Entries: 4, Shapes: shapesOf(makeA, setA, makeB), Watches: lasting | oneShot, Ring: 3, Feed: 1,
			Replay: 3, Ask: 2, Most: Counts{Disconnects: 3, Restores: 1, Begun: 1, Read: 3, Besides: 1},
		},
		{
			Name: "writes", Entries: 4, Shapes: shapesOf(ownA, apart, makeB), Watches: 1<<watchAll | 1<<watchChild, Ring: 2,
			Feed: 2, Replay: 3, Ask: watches, Most: Counts{Disconnects: 2, Restores: 1, Begun: 1, Read: 1},
		},
	}
)
