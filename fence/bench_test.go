package fence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"holdfast/fence"
)

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fence.Parse("140737488355327.65535"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	g := fence.NewGuard(1)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Admit("/locks/printer", 7); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefuse(b *testing.B) {
	g := fence.NewGuard(1)
	if err := g.Admit("/locks/printer", 8); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if g.Admit("/locks/printer", 7) == nil {
			b.Fatal("admitted")
		}
	}
}

func BenchmarkDo(b *testing.B) {
	g := fence.NewGuard(1)
	write := func(context.Context) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Do(b.Context(), "/locks/printer", 7, write); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandler measures the cost of the handler for a request.
func BenchmarkHandler(b *testing.B) {
	h := fence.NewGuard(1).Handler(func(*http.Request) string { return "/locks/printer" },
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, w := httptest.NewRequest(http.MethodPut, "/", nil), httptest.NewRecorder()
	fence.SetHeader(r.Header, 1024<<16|3)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
	if w.Code != http.StatusOK {
		b.Fatal(w.Code)
	}
}

// BenchmarkResources measures a guard's memory for a resource, without its name.
func BenchmarkResources(b *testing.B) {
	const resources = 100_000
	var names [resources]string
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	heap := func() float64 {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		return float64(now.HeapAlloc)
	}
	for b.Loop() {
		before := heap()
		g := fence.NewGuard(resources)
		for _, name := range names {
			if err := g.Admit(name, 7); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((heap()-before)/resources, "B/resource")
		runtime.KeepAlive(g)
	}
	runtime.KeepAlive(&names)
}
