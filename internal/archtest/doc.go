// Package archtest holds the rules that no compiler checks, each as a test over
// the whole repository and as fixtures in testdata that prove that it can fail:
//
//	imports.go  imports point one way, and each outside library has its place
//	paths.go    every path that documentation, Makefile and CI name exists
//	size.go     files and functions stay short
//	scripts.go  the header of a Lua script names its KEYS and ARGV
//	honesty.go  no test skips; only main ends the process
//	compose.go  docker-compose.yml fits the configuration that it mounts
//	readme.go   the commands and flags that the documentation shows exist
//
// A rule is a function of a directory that returns one line a problem, with its
// place; it fails only where the directory cannot be read.
package archtest
