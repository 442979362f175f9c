// Package deploytest holds deploy/ to the code: every metric and label that an
// alert rule, a panel or a query of the documentation uses is one that a worker
// exports, every alert has a test and says what to do, and the manifests are what
// Kubernetes takes and give a worker the time that it needs to stop.
//
// It has no code of its own but checks, which its tests run over the repository
// and over texts with one mistake each.
package deploytest
