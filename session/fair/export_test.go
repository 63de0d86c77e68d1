package fair

// Sources returns how many sources a queue remembers.
func (q *Queue[S, T]) Sources() int { return len(q.sources) }

// Members returns the number of members that a room remembers.
func (n *Nested[O, M]) Members() int { return len(n.members) }
