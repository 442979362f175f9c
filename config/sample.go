package config

import (
	_ "embed"
	"slices"
)

//go:embed sample.yaml
var sample []byte

// Sample returns a commented configuration to start from. It loads where the
// environment has OPENAI_API_KEY.
func Sample() []byte { return slices.Clone(sample) }
