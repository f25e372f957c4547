# storlab: partition_new
param([uint32]$Number, [char]$Letter)
$null = New-Partition -DiskNumber $Number -UseMaximumSize -DriveLetter $Letter
