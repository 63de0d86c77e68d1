package watch

// The feed of a connection: V6, like package holdfast/watch. A test compares the two.

// Classes of items.
const (
	folds   uint8 = 1 + iota // an event that a LOST may replace
	stays                    // an event that ends a one-shot
	answers                  // an answer
	losses                   // a LOST
)

// item is one thing to send.
type item struct {
	Class uint8
	// Low is the lowest stamp that the item covers, Stamp the highest.
	Low, Stamp stamp
	Event      event
	// Answer is the kind of answer. About has the kind of a read's one-shot. Root is the index of the root that a read
	// shows.
	Answer, About, Root uint8
}

// Kinds of answers.
const (
	ofCatchUp uint8 = 1 + iota
	ofNew
	ofRead
	ofWrite
)

// feed is the unsent part of a connection's events and answers.
type feed struct {
	Items [maxFeed]item
	Len   uint8
	// Delivered is the stamp up to which the client has received all events.
	Delivered stamp
}

// addOneShot adds an event that ends one-shots.
func (x serving) addOneShot(f *feed, e event) {
	if !x.Obeys(V6Stay) {
		x.addEvent(f, e)
		return
	}
	x.add(f, item{Class: stays, Low: e.Stamp, Stamp: e.Stamp, Event: e})
}

// addEvent adds an event of a lasting watch, which a LOST may replace.
func (x serving) addEvent(f *feed, e event) {
	x.add(f, item{Class: folds, Low: e.Stamp, Stamp: e.Stamp, Event: e})
	if f.count(folds) > x.scope.Feed {
		x.collapse(f)
	}
}

// add adds an item, or extends the last LOST to cover it.
func (x serving) add(f *feed, i item) {
	open := f.open()
	switch {
	case open == nil, i.Class == answers, i.Class != stays && open != &f.Items[f.Len-1] && x.Obeys(V6Answer):
	case i.Class != stays: // joins
		if x.Obeys(V6Low) {
			open.Low = min(open.Low, i.Low)
		}
		open.Stamp = max(open.Stamp, i.Stamp)
		return
	case open.Stamp >= i.Stamp && x.Obeys(V6Parted):
		behind := item{Class: losses, Low: max(open.Low, i.Stamp), Stamp: open.Stamp}
		if open.Stamp = i.Stamp - 1; open.Stamp < open.Low {
			f.remove(open)
		}
		x.push(f, i)
		x.push(f, behind)
		return
	}
	x.push(f, i)
}

// open returns the last item besides answers if it is a LOST, which later events join if no answer follows it;
// otherwise nil.
func (f *feed) open() *item {
	for n := f.Len; n > 0; n-- {
		switch i := &f.Items[n-1]; i.Class {
		case losses:
			return i
		case answers:
		default:
			return nil
		}
	}
	return nil
}

func (x serving) push(f *feed, i item) {
	if f.Len == maxFeed {
		x.full = true
		return
	}
	f.Items[f.Len] = i
	f.Len++
}

// remove removes an item.
func (f *feed) remove(i *item) {
	for n := range f.Items[:f.Len] {
		if &f.Items[n] == i {
			copy(f.Items[n:], f.Items[n+1:])
			f.Len--
			f.Items[f.Len] = item{}
			return
		}
	}
}

func (f *feed) count(class uint8) (n uint8) {
	for i := range f.Items[:f.Len] {
		if f.Items[i].Class == class {
			n++
		}
	}
	return n
}

// collapse replaces events by a LOST, where V6 allows it (V6 LOST).
func (x serving) collapse(f *feed) {
	old := *f
	*f = feed{Delivered: old.Delivered}
	for _, i := range old.Items[:old.Len] {
		switch {
		case i.Class != folds:
			x.add(f, i)
		case x.Obeys(V6Lost):
			x.add(f, item{Class: losses, Low: i.Low, Stamp: i.Stamp})
		}
	}
}

// next removes the first item. root is the stamp of the root that the dispatcher serves.
func (x serving) next(f *feed, root stamp) (item, bool) {
	if f.Len == 0 {
		return item{}, false
	}
	i := f.Items[0]
	last := i.Class == losses && f.Len == 1
	f.remove(&f.Items[0])
	if last && x.Obeys(V6Sent) {
		i.Stamp = max(i.Stamp, root)
	}
	if !f.covers(i.Stamp) || !x.Obeys(V4Last) {
		f.Delivered = max(f.Delivered, i.Stamp)
	}
	return i, true
}

// covers reports whether an item concerns a stamp up to this one.
func (f *feed) covers(of stamp) bool {
	for _, i := range f.Items[:f.Len] {
		if i.Class != answers && i.Low <= of {
			return true
		}
	}
	return false
}
