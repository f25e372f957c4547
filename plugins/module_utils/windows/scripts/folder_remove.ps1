# storlab: folder_remove
# The folder with all that is in it, and those above it that are empty then.
param([string]$Folder)
if (Test-Path -LiteralPath $Folder) { Remove-Item -LiteralPath $Folder -Recurse -Force }
$place = [System.IO.Path]::GetDirectoryName($Folder)
while ($place -ne [System.IO.Path]::GetPathRoot($Folder) -and (Test-Path -LiteralPath $place) -and -not @(Get-ChildItem -LiteralPath $place -Force)) {
    [System.IO.Directory]::Delete($place)
    $place = [System.IO.Path]::GetDirectoryName($place)
}
