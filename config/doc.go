// Package config is the file nightshift.yaml: its types, defaults, strict load,
// validation and redaction.
//
// [Load] returns a complete [Config], or one [*Error] with every problem of the
// file, each with its line, column and key. The way of a file:
//
//	YAML → tree (tree.go) → structs with defaults (decode.go)
//	     → inheritance (resolve.go) → checks (check*.go)
//
// A key is a field of a struct in types.go. Its tags say what may stand there:
//
//	yaml     the key
//	default  the value when the key is absent
//	enum     the words allowed, comma-separated
//	min,max  bounds of a number or a duration; numbers are never negative
//	keyed    a mapping whose keys go into the named field of its elements
//
// and its comment says what it means; docs/configuration.md is made of both
// (go generate ./config).
//
// Secrets are only named in the file; [Model.APIKey] reads one when it is
// needed, and nothing prints them: values that can carry one have types which
// redact themselves.
package config

//go:generate go run ./internal/gendoc
