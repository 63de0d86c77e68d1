package health

import runtimemetrics "runtime/metrics"

// Memory is the memory limit of a process's Go runtime.
type Memory struct {
	// Limit is in bytes, 0 for none.
	Limit uint64
	From  MemorySource
}

// MemorySource is the source of a [Memory] limit.
type MemorySource string

// Sources of a memory limit.
const (
	MemoryFromSetting     MemorySource = "memory_limit"
	MemoryFromEnvironment MemorySource = "GOMEMLIMIT"
	MemoryFromGroup       MemorySource = "control group"
	MemoryFromMachine     MemorySource = "machine"
	MemoryUnlimited       MemorySource = "none"
)

// Label is the source as a label of metrics; empty without a limit.
func (s MemorySource) Label() string {
	switch s {
	case MemoryFromSetting:
		return "setting"
	case MemoryFromEnvironment:
		return "environment"
	case MemoryFromGroup:
		return "cgroup"
	case MemoryFromMachine:
		return "machine"
	case MemoryUnlimited:
	}
	return ""
}

// heapInUse returns the bytes of the objects that the last garbage collection found in use.
func heapInUse() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(sample)
	if sample[0].Value.Kind() != runtimemetrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

const (
	// shareOfOpens and shareOfAll are the shares of the memory limit at which opens are refused, and at which resumes
	// and writes are refused too. The garbage collector works harder as the heap approaches the limit: at nine tenths
	// it collects ten times while the heap is filled once.
	shareOfOpens, shareOfAll = 0.8, 0.9
	// memoryHysteresis is the distance by which the share must fall below a threshold before refusals end.
	memoryHysteresis = 0.05
)

// threshold becomes exceeded at one share of memory, and stays exceeded until the share has fallen below a lower one.
type threshold struct {
	at, hysteresis float64
	exceeded       bool
}

// update processes the present share, and reports whether exceeded has changed.
func (t *threshold) update(share float64) (changed bool) {
	was := t.exceeded
	switch {
	case share >= t.at:
		t.exceeded = true
	case share < t.at-t.hysteresis:
		t.exceeded = false
	}
	return t.exceeded != was
}
