# storlab: file_remove
param([string]$Path)
Remove-Item -LiteralPath $Path -Force
