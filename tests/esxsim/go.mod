module storlab.test/esxsim

go 1.24.0

require (
	github.com/google/uuid v1.6.0
	github.com/vmware/govmomi v0.54.0
)
