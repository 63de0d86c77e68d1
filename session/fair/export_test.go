package fair

// Sources returns how many sources a queue remembers.
func (q *Queue[S, T]) Sources() int { return len(q.sources) }
