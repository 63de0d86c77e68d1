package watch

import (
	"holdfast/test/model/check"
	"holdfast/test/model/search"
)

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
		Batch: watches,
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
		s.Watches, s.Most[Begun], s.Most[Disconnects], s.Batch = 1<<watchAll|1<<watchA, 2, 1, 1
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
		s.Watches, s.Most[Begun], s.Most[Disconnects], s.Batch = 1<<watchAll|1<<watchA, 2, 1, 1
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

// leftOuts has every rule alone, in the order of docs/tree.md, and pairs of rules that cover each other.
var leftOuts = []check.LeftOut[*Scope]{
	{Without: search.Rules(D2), Breaks: 0, Scope: writeApart},
	{Without: search.Rules(G1Ring), Breaks: I11, Scope: calm},
	{Without: search.Rules(G1Root), Breaks: I11, Scope: calm},
	{Without: search.Rules(G1Answer), Breaks: I13, Scope: writing},
	{Without: search.Rules(G2Root), Breaks: I13, Scope: readBoth},
	{Without: search.Rules(G2Register), Breaks: I11, Scope: reading},
	{Without: search.Rules(G2Place), Breaks: I11, Scope: reading},
	{Without: search.Rules(G4Write), Breaks: I13, Scope: writeReads},
	{Without: search.Rules(G4Read), Breaks: I11, Scope: readLosing},
	{Without: search.Rules(G4Alive), Breaks: I11, Scope: losing},
	{Without: search.Rules(G5), Breaks: I18, Scope: writeLosing},
	{Without: search.Rules(N4Seen), Breaks: I13, Scope: writeReads},
	{Without: search.Rules(I13Reads), Breaks: I13, Scope: readAll},
	{Without: search.Rules(I13Writes), Breaks: I13, Scope: writeLosing},
	{Without: search.Rules(I13Lost), Breaks: I13, Scope: slowOne},
	{Without: search.Rules(I13Top), Breaks: 0, Scope: slowOne},
	{Without: search.Rules(V2Root), Breaks: I11, Scope: reading},
	{Without: search.Rules(V2Once), Breaks: 0, Scope: reading},
	{Without: search.Rules(V2Each), Breaks: I11, Scope: twins},
	{Without: search.Rules(V3Restore), Breaks: I11, Scope: restoreLose},
	{Without: search.Rules(V3Process), Breaks: I11, Scope: restarting},
	{Without: search.Rules(V4Since), Breaks: I11, Scope: pairs},
	{Without: search.Rules(V4Index), Breaks: I11, Scope: losing},
	{Without: search.Rules(V4Start), Breaks: I11, Scope: short},
	{Without: search.Rules(V4Last), Breaks: I11, Scope: pairs},
	{Without: search.Rules(V4Below), Breaks: I11, Scope: pairs},
	{Without: search.Rules(V4Former), Breaks: I11, Scope: again},
	{Without: search.Rules(V4Tree), Breaks: I11, Scope: readLosing},
	{Without: search.Rules(V4Had), Breaks: I11, Scope: losing},
	{Without: search.Rules(V4Sorts), Breaks: 0, Scope: oneByOne},
	{Without: search.Rules(V4Mixed), Breaks: I11, Scope: oneByOne},
	{Without: search.Rules(V4Beside), Breaks: I11, Scope: besides},
	{Without: search.Rules(V4First), Breaks: I11, Scope: twins},
	{Without: search.Rules(V4Ended), Breaks: I11, Scope: endLosing},
	{Without: search.Rules(V4Together), Breaks: I11, Scope: oneByOne},
	{Without: search.Rules(V5), Breaks: Resumable, Scope: quiet},
	{Without: search.Rules(V5Answers), Breaks: Resumable, Scope: quietReads},
	{Without: search.Rules(V6Lost), Breaks: I11, Scope: slow},
	{Without: search.Rules(V6Stay), Breaks: I11, Scope: readSlow},
	{Without: search.Rules(V6Parted), Breaks: I11, Scope: readSlow},
	{Without: search.Rules(V6Answer), Breaks: I11, Scope: slowTwins},
	{Without: search.Rules(V6Low), Breaks: 0, Scope: slowLosing},
	{Without: search.Rules(V6Sent), Breaks: 0, Scope: slowLosing},
	{Without: search.Rules(V6Skip), Breaks: I11, Scope: restoring},
	{Without: search.Rules(V6Once), Breaks: I11, Scope: readSkip},
	{Without: search.Rules(V6First), Breaks: I11, Scope: skipLose},
	{Without: search.Rules(W4Kept), Breaks: I18, Scope: writeSkip},
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
			Name: "everything", Entries: 4, Shapes: 1<<shapes - 1, Watches: 1<<watches - 1, Ring: 2, Feed: 2, Replay: 2, Batch: 1,
			Most: Counts{Disconnects: 3, Restores: 1, Restarts: 1, Begun: 3, Dropped: 1, Read: 2, Besides: 1},
		},
		{
			Name: "lasting watches", Entries: 4, Shapes: shapesOf(makeA, makeB, both, twice), Watches: 1<<watchAll | 1<<watchA,
			Ring: 3, Feed: 2, Replay: 3, Batch: 1, Most: Counts{Disconnects: 3, Begun: 3, Dropped: 1},
		},
		{
			Name: "one-shots", Entries: 4, Shapes: shapesOf(makeA, setA, makeB), Watches: lasting | oneShot, Ring: 3, Feed: 1,
			Replay: 3, Batch: 2, Most: Counts{Disconnects: 3, Restores: 1, Begun: 1, Read: 3, Besides: 1},
		},
		{
			Name: "writes", Entries: 4, Shapes: shapesOf(ownA, apart, makeB), Watches: 1<<watchAll | 1<<watchChild, Ring: 2,
			Feed: 2, Replay: 3, Batch: watches, Most: Counts{Disconnects: 2, Restores: 1, Begun: 1, Read: 1},
		},
	}
)

// wholes returns the searches of completes.
func wholes() (all []check.Whole[*Scope]) {
	for _, scope := range completes {
		all = append(all, check.Whole[*Scope]{Scope: scope, For: All})
	}
	return all
}
