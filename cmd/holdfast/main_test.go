package main

import (
	"testing"

	"holdfast/cmd/holdfast/internal/clitest"
)

func TestMain(m *testing.M) { clitest.MainWith(m, root) }
