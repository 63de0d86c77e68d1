package node

// roomMetrics describe how much of the machine is used (O5).
func roomMetrics() []metric {
	all := []metric{
		gauge("disk_free_bytes", "Bytes that are free on the data directory's file system.",
			func(f *figures) float64 { return float64(f.node.ports.room.free()) }).
			when("below twice disk_reserve_bytes: the disk is soon full"),
		gauge("disk_reserve_bytes", "Bytes that must be free on the data directory's file system, by disk_limit: with less "+
			"its disk is full.", func(f *figures) float64 { return float64(f.node.ports.room.reserve()) }),
		gauge("memory_used_bytes", "Bytes of the objects that the last collection of garbage has found in use.",
			func(f *figures) float64 { return float64(f.node.ports.room.state.heap.Load()) }).
			when("above 70 % of memory_limit_bytes: at 80 %, opens are refused"),
	}
	for _, by := range []struct {
		source MemorySource
		reason string
	}{
		{MemoryFromSetting, "setting"},
		{MemoryFromEnvironment, "environment"},
		{MemoryFromGroup, "group"},
		{MemoryFromMachine, "machine"},
	} {
		all = append(all, gauge("memory_limit_bytes", "Limit of the Go runtime's memory, by what has set it: memory_limit "+
			"(setting), GOMEMLIMIT (environment), the control group (group) or the machine's memory (machine); 0 where it "+
			"has not.",
			func(f *figures) float64 {
				if m := f.node.ports.room.memory; m.From == by.source {
					return float64(m.Limit)
				}
				return 0
			}).of(by.reason))
	}
	return append(all,
		gauge("refusing", "1 while requests are refused for want of room on disks (disk) or in memory (memory).",
			func(f *figures) float64 { return truth(f.node.ports.room.state.diskHold.Load() != nil) }).of("disk").
			when("1: see \"When little room is left\""),
		gauge("refusing", "1 while requests are refused for want of room on disks (disk) or in memory (memory).",
			func(f *figures) float64 { return truth(f.node.ports.room.state.memoryHold.Load() != nil) }).of("memory").
			when("1: see \"When little room is left\""))
}
