# part: empty_folders
# Removes the folders above one that is gone, as far as they are empty.
function Remove-EmptyAbove {
    param([string]$Folder)
    $place = [System.IO.Path]::GetDirectoryName($Folder)
    while ($place -and $place -ne [System.IO.Path]::GetPathRoot($Folder) -and (Test-Path -LiteralPath $place) -and -not @(Get-ChildItem -LiteralPath $place -Force)) {
        [System.IO.Directory]::Delete($place)
        $place = [System.IO.Path]::GetDirectoryName($place)
    }
}
