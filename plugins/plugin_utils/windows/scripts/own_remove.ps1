# storlab: own_remove
# Files in the folder that the testbed made, and the folder where nothing else is in it. Folders above stay, empty or not: others made them.
param([string]$Own, [string[]]$Names)
foreach ($name in $Names) { [System.IO.File]::Delete([System.IO.Path]::Combine($Own, $name)) }
[System.IO.Directory]::Delete($Own, $false)
