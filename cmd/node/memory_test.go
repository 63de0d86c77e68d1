package main

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	"holdfast/node/health"
)

// The limit comes from the first source that has one, and the runtime keeps within it.
func TestLimitMemory(t *testing.T) {
	former := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(former) })
	const gib = 1 << 30
	one := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	second := fstest.MapFS{
		"proc/self/cgroup":                       one("0::/a.slice/b\n"),
		"sys/fs/cgroup/a.slice/b/memory.max":     one("max\n"),
		"sys/fs/cgroup/a.slice/memory.max":       one("2147483648\n"),
		"sys/fs/cgroup/other/memory.max":         one("1\n"),
		"sys/fs/cgroup/memory/memory.stat":       one("not read"),
		"sys/fs/cgroup/a.slice/b/memory.current": one("7\n"),
	}
	first := fstest.MapFS{
		"proc/self/cgroup": one("5:cpu,cpuacct:/x\n4:memory:/docker/x\n"),
		"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": one("1073741824\n"),
		"sys/fs/cgroup/memory/memory.limit_in_bytes":          one("9223372036854771712\n"),
	}
	mounted := fstest.MapFS{ // of version 1, in a container without a name space of groups
		"proc/self/cgroup":                           one("4:memory:/docker/x\n"),
		"sys/fs/cgroup/memory/memory.limit_in_bytes": one("1073741824\n"),
	}
	for name, test := range map[string]struct {
		setting uint64
		environ []string
		files   fstest.MapFS
		want    health.Memory
	}{
		"version 2": {files: second, want: health.Memory{Limit: 2 * gib / 10 * 9, From: health.MemoryFromGroup}},
		"version 1": {files: first, want: health.Memory{Limit: gib / 10 * 9, From: health.MemoryFromGroup}},
		"mounted":   {files: mounted, want: health.Memory{Limit: gib / 10 * 9, From: health.MemoryFromGroup}},
		"setting":   {setting: gib, files: second, want: health.Memory{Limit: gib, From: health.MemoryFromSetting}},
		"machine": {
			files: fstest.MapFS{
				"proc/self/cgroup": one("0::/\n"),
				"proc/meminfo":     one("MemTotal:        4194304 kB\nMemFree:          100 kB\n"),
			},
			want: health.Memory{Limit: 3 * gib, From: health.MemoryFromMachine},
		},
		"none": {files: fstest.MapFS{}, want: health.Memory{From: health.MemoryUnlimited}},
		"environment": {
			setting: gib, environ: []string{"GOMEMLIMIT=3GiB"}, files: second,
			want: health.Memory{Limit: 3 * gib, From: health.MemoryFromEnvironment},
		},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			if test.want.From == health.MemoryFromEnvironment {
				debug.SetMemoryLimit(3 * gib) // as the runtime has done by itself
			}
			got, err := limitMemory(test.setting, test.environ, test.files)
			if got != test.want || err != nil {
				t.Fatalf("got %+v, %v, want %+v", got, err, test.want)
			}
			want := int64(test.want.Limit)
			if want == 0 {
				want = math.MaxInt64
			}
			if at := debug.SetMemoryLimit(-1); at != want {
				t.Errorf("the runtime keeps within %d, want %d", at, want)
			}
		})
	}
	second["sys/fs/cgroup/a.slice/memory.max"] = one("much\n")
	_, err := limitMemory(0, nil, second)
	if err == nil || !strings.Contains(err.Error(), `"much"`) {
		t.Errorf("a limit that is no number: %v", err)
	}
}
