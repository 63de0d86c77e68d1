package fair_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/session/fair"
)

// serve serves the next item, and returns its value.
func serve[T any](q *fair.Queue[string, T]) T {
	i := q.First()
	q.Serve(i)
	return i.Value
}

// A new source with one cheap item waits for at most one item of the others, at whatever moment it comes.
func TestANewSourceIsSoonServed(t *testing.T) {
	const sources, each, cost = 20, 4, 1 << 20
	for served := range sources*each - 1 {
		var q fair.Queue[string, string]
		for range each {
			for s := range sources {
				q.Push(&fair.Item[string, string]{Value: "large"}, string(rune('a'+s)), cost)
			}
		}
		for range served {
			serve(&q)
		}
		q.Push(&fair.Item[string, string]{Value: "small"}, "new", 100)
		waits := 0
		for serve(&q) != "small" {
			waits++
		}
		if waits > 1 {
			t.Errorf("with %d served, a new source waits for %d items of others", served, waits)
		}
	}
}

// Sources that always have items are served the same cost, whatever an item costs and however many they have, one that
// always has a single item too. Each keeps its order.
func TestSourcesAreServedAlike(t *testing.T) {
	var q fair.Queue[string, int]
	costs := map[string]int{"large": 1000, "small": 10, "many": 100, "single": 100}
	pushed, got, bytes := map[string]int{}, map[string]int{}, map[string]int{}
	of := map[int]string{}
	number := 0
	push := func(source string) {
		number++
		pushed[source]++
		of[number] = source
		q.Push(&fair.Item[string, int]{Value: number}, source, costs[source])
	}
	for _, source := range []string{"many", "large", "small"} {
		for range map[string]int{"many": 1000, "large": 3, "small": 3}[source] {
			push(source)
		}
	}
	push("single")
	for range 20_000 {
		n := serve(&q)
		source := of[n]
		if n < got[source] {
			t.Fatalf("%s: item %d after %d", source, n, got[source])
		}
		got[source] = n
		bytes[source] += costs[source]
		push(source)
	}
	for source, n := range bytes {
		if most := bytes["many"]; n < most*95/100-1000 || n > most*105/100+1000 {
			t.Errorf("%s was served %d, the others about %d", source, n, most)
		}
	}
}

// What leaves the queue unserved costs the others nothing, and a queue that was empty remembers no source.
func TestQueueForgets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var q fair.Queue[int, int]
	var items []*fair.Item[int, int]
	for i := range 10_000 {
		items = append(items, &fair.Item[int, int]{Value: i})
		q.Push(items[len(items)-1], i, 100*(1+random.IntN(10)))
		if random.IntN(2) == 0 {
			n := random.IntN(len(items))
			q.Remove(items[n])
			items = append(items[:n], items[n+1:]...)
		}
		if q.Len() != len(items) {
			t.Fatalf("%d items, want %d", q.Len(), len(items))
		}
	}
	for len(items) > 10 { // each serving lets sources rest no longer
		i := q.First()
		q.Serve(i)
		items = slices.DeleteFunc(items, func(other *fair.Item[int, int]) bool { return other == i })
	}
	if q.Sources() > 1000 { // the most expensive ones would not be done yet
		t.Errorf("%d sources are remembered for %d items", q.Sources(), len(items))
	}
	for _, i := range items {
		q.Remove(i)
	}
	if q.First() != nil || q.Len() != 0 || q.Sources() != 0 {
		t.Errorf("%d items and %d sources are left", q.Len(), q.Sources())
	}
}
