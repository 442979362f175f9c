package batch
